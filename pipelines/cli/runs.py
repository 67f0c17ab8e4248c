"""`penstock runs`: lists runs, shows one, and removes artifacts of old runs."""

import json
import time
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from penstock.components.errors import counted
from penstock.pipelines.cli.option_flags import Root
from penstock.pipelines.reporting.numbers import duration
from penstock.pipelines.terminal.tables import console, human_bytes, print_table

if TYPE_CHECKING:
    from penstock.pipelines.runs.prune import PrunePlan

app = typer.Typer(no_args_is_help=True)

Where = Annotated[
    str,
    typer.Argument(
        metavar="[PATH]",
        help="A folder of runs, a metadata file, or mysql://HOST[:PORT]/DATABASE[?tls=FOLDER].",
    ),
]


@app.command("list")
def list_command(
    where: Where = "runs",
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON list.")] = False,
) -> None:
    """List the runs in metadata stores, the newest first, with the disk space of each.

    Example: penstock runs list runs/taxi
    """
    runs = list_runs(where)
    if as_json:
        typer.echo(json.dumps([asdict(run) for run in runs], indent=1))
        return
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


@app.command("show")
def show_command(
    run: Annotated[
        str | None,
        typer.Argument(
            metavar="[RUN]", help="A run's folder, metadata file or id; by default the newest run."
        ),
    ] = None,
    root: Root = "runs",
) -> None:
    """Show the nodes of a run and the artifacts of each node.

    Example: penstock runs show runs/taxi
    """
    from ml_metadata.proto import metadata_store_pb2 as mlmd

    from penstock.pipelines.runs.prune import folder_bytes
    from penstock.pipelines.runs.stores import locate

    found = locate(run, root).run
    rows = []
    for node in found.nodes:
        first = (node.node, node.state, duration(node.seconds))
        for artifact in node.outputs:
            size = human_bytes(folder_bytes(artifact.uri))
            state = mlmd.Artifact.State.Name(artifact.state).lower()
            rows.append((*first, artifact.type, size, state, artifact.uri))
            first = ("", "", "")
        if not node.outputs:
            rows.append((*first, "", "", "", node.error))
    title = f"{found.pipeline}, run {found.run_id} of {_when(found.began)}"
    headers = ("node", "state", "took", "gave", "size", "", "where")
    print_table(console(), title, headers, rows)


@app.command("prune")
def prune_command(
    where: Where = "runs",
    keep: Annotated[int, typer.Option(min=1, help="Newest runs of each pipeline to keep.")] = 5,
    yes: Annotated[
        bool,
        typer.Option("--yes", help="Remove the artifacts; without --yes they are only listed."),
    ] = False,
    interrupted: Annotated[
        bool,
        typer.Option(
            "--interrupted",
            help="State that no run is active: runs recorded as active were interrupted.",
        ),
    ] = False,
) -> None:
    """Remove artifacts that neither a kept run nor the newest blessed model needs.

    Keeps, for each pipeline, the newest runs, active runs and the newest run that blessed a model.
    The artifacts from which the artifacts of these runs were made are kept too. The records of all
    runs stay in the metadata store.

    Example: penstock runs prune runs/taxi --keep 3
    """
    # MLMD is slow to import, and --help does not need it.
    from penstock.pipelines.runs.metadata_store import SqliteStore, only_run, open_reading
    from penstock.pipelines.runs.prune import plan_prune, prune
    from penstock.pipelines.runs.stores import find_stores

    for store in find_stores(where):
        lock: AbstractContextManager = nullcontext()
        if isinstance(store, SqliteStore) and yes:
            # A run that starts now could reuse a cached artifact that is about to be removed.
            lock = only_run(Path(store.path).parent)
        with lock, open_reading(store, writable=yes) as opened:
            plan = plan_prune(opened, keep=keep, interrupted=interrupted)
            _tell(plan, str(store), yes)
            if yes:
                prune(opened, plan)


@dataclass(frozen=True)
class RunLine:
    """A run as one line of a table.

    Attributes:
        size: Bytes of the artifacts that the run made and that still exist.
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
    from penstock.pipelines.reporting.run_facts import gather_pipeline, judge
    from penstock.pipelines.runs.prune import folder_bytes, new_artifacts
    from penstock.pipelines.runs.run_note import read_note
    from penstock.pipelines.runs.stores import find_stores, newest_first

    found = []
    ordered = list(newest_first(find_stores(where)))
    for at, (store, run) in enumerate(ordered):
        note = read_note(run)
        # The note lists the nodes of the pipeline. Without a note, earlier runs show which nodes
        # this run did not reach.
        older = [] if note.upstream else [r for s, r in ordered[at + 1 :] if str(s) == str(store)]
        earlier = [one for one in older if one.pipeline == run.pipeline]
        pipeline = gather_pipeline(run, note, earlier)
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
    return found


def _tell(plan: "PrunePlan", store: str, yes: bool) -> None:
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
