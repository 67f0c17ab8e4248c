"""The runs that metadata stores know, each in a line."""

import json
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass

from penstock.pipelines.reporting.numbers import duration
from penstock.pipelines.reporting.pipeline_facts import gather_pipeline
from penstock.pipelines.reporting.verdict import judge
from penstock.pipelines.runs.metadata_store import open_reading
from penstock.pipelines.runs.run_note import read_note
from penstock.pipelines.runs.run_record import all_runs
from penstock.pipelines.runs.stores import find_stores
from penstock.pipelines.terminal.tables import console, counted, print_table


@dataclass(frozen=True)
class RunLine:
    """A run in a line.

    Attributes:
        run_id: Its id.
        pipeline: The pipeline.
        began: When, in seconds since the epoch.
        seconds: How long it took.
        outcome: In a word, `Pushed`.
        sentence: Why.
        cached: Nodes that came from the cache.
        nodes: Nodes that ran or came from the cache.
        store: The metadata store that knows it.
    """

    run_id: str
    pipeline: str
    began: float
    seconds: float
    outcome: str
    sentence: str
    cached: int
    nodes: int
    store: str


def list_runs(where: str) -> list[RunLine]:
    """All runs of all stores below a folder, the newest first.

    Raises:
        DataError: There are none, or a store cannot be read.
    """
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
                        str(store),
                    )
                )
    return sorted(found, key=lambda run: run.began, reverse=True)


def show_runs(runs: Sequence[RunLine]) -> None:
    """Print a line a run on stdout."""
    headers = ("run", "pipeline", "began", "took", "cached", "outcome")
    rows = [
        (
            run.run_id,
            run.pipeline,
            time.strftime("%Y-%m-%d %H:%M", time.localtime(run.began)),
            duration(run.seconds),
            f"{run.cached}/{run.nodes}",
            run.outcome,
        )
        for run in runs
    ]
    print_table(console(), counted(len(rows), "run"), headers, rows)


def to_json(runs: Sequence[RunLine]) -> str:
    """The runs as a JSON list."""
    return json.dumps([asdict(run) for run in runs], indent=1)
