"""`penstock runs`: which runs there are, what each did, and room won back from old ones."""

from typing import Annotated

import typer

from penstock.pipelines.cli.option_flags import Root

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
    """List the runs that metadata stores know, the newest first, with what each takes on disk.

    Example: penstock runs list runs/taxi
    """
    from penstock.pipelines.cli.work import runs

    found = runs.list_runs(where)
    if as_json:
        typer.echo(runs.to_json(found))
    else:
        runs.show_runs(found)


@app.command("show")
def show_command(
    run: Annotated[
        str | None,
        typer.Argument(
            metavar="[RUN]", help="A run's folder, metadata file or id; the newest run without."
        ),
    ] = None,
    root: Root = "runs",
) -> None:
    """Show the nodes of a run, and the artifacts that each gave.

    Example: penstock runs show runs/taxi
    """
    from penstock.pipelines.cli.work import runs

    runs.show_run(run, root)


@app.command("prune")
def prune_command(
    where: Where = "runs",
    keep: Annotated[int, typer.Option(min=1, help="Newest runs of each pipeline to keep.")] = 5,
    yes: Annotated[
        bool, typer.Option("--yes", help="Remove; without, only say what would go.")
    ] = False,
    interrupted: Annotated[
        bool,
        typer.Option(
            "--interrupted", help="No run is under way: those recorded so were interrupted."
        ),
    ] = False,
) -> None:
    """Remove artifacts that no kept run and no newest blessed model rests on.

    Kept are the newest runs of each pipeline, runs under way, and the newest blessed model, each
    with all that it was made from. The record of a run stays.

    Example: penstock runs prune runs/taxi --keep 3
    """
    from penstock.pipelines.cli.work import runs

    runs.prune_runs(where, keep=keep, yes=yes, interrupted=interrupted)
