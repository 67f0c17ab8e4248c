"""The work of `penstock runs`: a line a run, one run by node, and the removal of old ones."""

import json
import time
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict, dataclass
from pathlib import Path

from ml_metadata.proto import metadata_store_pb2 as mlmd

from penstock.components.errors import counted
from penstock.pipelines.reporting.numbers import duration
from penstock.pipelines.reporting.run_facts import gather_pipeline, judge
from penstock.pipelines.runs.metadata_store import SqliteStore, only_run, open_reading
from penstock.pipelines.runs.prune import (
    PrunePlan,
    folder_bytes,
    new_artifacts,
    plan_prune,
    prune,
)
from penstock.pipelines.runs.run_note import read_note
from penstock.pipelines.runs.run_record import all_runs
from penstock.pipelines.runs.stores import find_stores, locate
from penstock.pipelines.terminal.tables import console, human_bytes, print_table


@dataclass(frozen=True)
class RunLine:
    """A run in a line.

    Attributes:
        size: Bytes of the artifacts that it made and that are still there.
    """

    run_id: str
    pipeline: str
    began: float
    seconds: float
    outcome: str
    sentence: str
    cached: int
    nodes: int
    size: int
    store: str


def list_runs(where: str) -> list[RunLine]:
    found = []
    for store in find_stores(where):
        with open_reading(store) as opened:
            for run in all_runs(opened):
                note = read_note(run)
                pipeline = gather_pipeline(run, note, ())
                verdict = judge(run, pipeline, note, None)
                states = [node.state for node in pipeline.nodes if node.tries]
                found.append(
                    RunLine(
                        run.run_id,
                        run.pipeline,
                        run.began,
                        run.seconds,
                        verdict.word,
                        verdict.sentence,
                        states.count("cached"),
                        len(states),
                        sum(folder_bytes(artifact.uri) for artifact in new_artifacts(run)),
                        str(store),
                    )
                )
    return sorted(found, key=lambda run: run.began, reverse=True)


def show_runs(runs: Sequence[RunLine]) -> None:
    headers = ("run", "pipeline", "began", "took", "cached", "size", "outcome")
    rows = [
        (
            run.run_id,
            run.pipeline,
            _when(run.began),
            duration(run.seconds),
            f"{run.cached}/{run.nodes}",
            human_bytes(run.size),
            run.outcome,
        )
        for run in runs
    ]
    print_table(console(), counted(len(rows), "run"), headers, rows)


def to_json(runs: Sequence[RunLine]) -> str:
    return json.dumps([asdict(run) for run in runs], indent=1)


def show_run(what: str | None, root: str) -> None:
    run = locate(what, root).run
    rows = []
    for node in run.nodes:
        first = (node.node, node.state, duration(node.seconds))
        for artifact in node.outputs:
            size = human_bytes(folder_bytes(artifact.uri))
            state = mlmd.Artifact.State.Name(artifact.state).lower()
            rows.append((*first, artifact.type, size, state, artifact.uri))
            first = ("", "", "")
        if not node.outputs:
            rows.append((*first, "", "", "", node.error))
    title = f"{run.pipeline}, run {run.run_id} of {_when(run.began)}"
    headers = ("node", "state", "took", "gave", "size", "", "where")
    print_table(console(), title, headers, rows)


def prune_runs(where: str, *, keep: int, yes: bool, interrupted: bool) -> None:
    for store in find_stores(where):
        lock: AbstractContextManager = nullcontext()
        if isinstance(store, SqliteStore) and yes:
            # A run that begins now may take from the cache what is about to go.
            lock = only_run(Path(store.path).parent)
        with lock, open_reading(store, writable=yes) as opened:
            plan = plan_prune(opened, keep=keep, interrupted=interrupted)
            _tell(plan, str(store), yes)
            if yes:
                prune(opened, plan)


def _tell(plan: PrunePlan, store: str, yes: bool) -> None:
    folders = len(plan.artifacts) + len(plan.leftovers)
    what = f"{counted(folders, 'folder')} of {counted(len(plan.runs), 'run')}"
    left = f", {len(plan.leftovers)} left by interrupted tries" if plan.leftovers else ""
    kept = f"kept: {counted(len(plan.kept), 'run')}, and what they and the blessed model rest on"
    if not folders:
        print(f"{store}: nothing to remove; {kept}")
        return
    done = "removed" if yes else "would go"
    print(f"{store}: {done}: {what}, {human_bytes(plan.size)}{left}; {kept}")
    for folder in (*(artifact.uri for artifact in plan.artifacts), *plan.leftovers):
        print(f"  {folder}")
    if not yes:
        print("give --yes to remove them")


def _when(began: float) -> str:
    return time.strftime("%Y-%m-%d %H:%M", time.localtime(began))
