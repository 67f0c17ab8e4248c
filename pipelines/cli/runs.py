"""`penstock runs`: which runs there are, and what came of them."""

from typing import Annotated

import typer


def command(
    where: Annotated[
        str, typer.Argument(metavar="[PATH]", help="A folder of runs, or a metadata file.")
    ] = "runs",
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON list.")] = False,
) -> None:
    """List the runs that the metadata stores in a folder know, the newest first.

    Example: penstock runs runs/taxi
    """
    from penstock.pipelines.cli.work.runs import list_runs, show_runs, to_json

    found = list_runs(where)
    if as_json:
        typer.echo(to_json(found))
    else:
        show_runs(found)
