"""`penstock runs`: which runs there are, what each did, and room won back from old ones."""

from typing import Annotated

import typer

from penstock.pipelines.cli import mysql_flags as mysql

app = typer.Typer(no_args_is_help=True)

Where = Annotated[str, typer.Argument(metavar="[PATH]", help="A folder of runs, or metadata file.")]


@app.command("list")
def list_command(
    where: Where = "runs",
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON list.")] = False,
    metadata_mysql_host: mysql.Host = None,
    metadata_mysql_port: mysql.Port = mysql.PORT,
    metadata_mysql_database: mysql.Database = mysql.DATABASE,
    metadata_mysql_tls: mysql.Tls = None,
) -> None:
    """List the runs that metadata stores know, the newest first, with what each takes on disk.

    Example: penstock runs list runs/taxi
    """
    from penstock.pipelines.cli.work import runs

    store = mysql.mysql_store(
        metadata_mysql_host, metadata_mysql_port, metadata_mysql_database, metadata_mysql_tls
    )
    found = runs.list_runs(where, store)
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
    root: Annotated[str, typer.Option(help="Folder in which run ids are looked for.")] = "runs",
    metadata_mysql_host: mysql.Host = None,
    metadata_mysql_port: mysql.Port = mysql.PORT,
    metadata_mysql_database: mysql.Database = mysql.DATABASE,
    metadata_mysql_tls: mysql.Tls = None,
) -> None:
    """Show the nodes of a run, and the artifacts that each gave.

    Example: penstock runs show runs/taxi
    """
    from penstock.pipelines.cli.work import runs

    store = mysql.mysql_store(
        metadata_mysql_host, metadata_mysql_port, metadata_mysql_database, metadata_mysql_tls
    )
    runs.show_run(run, root, store)


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
    metadata_mysql_host: mysql.Host = None,
    metadata_mysql_port: mysql.Port = mysql.PORT,
    metadata_mysql_database: mysql.Database = mysql.DATABASE,
    metadata_mysql_tls: mysql.Tls = None,
) -> None:
    """Remove artifacts that no kept run and no newest blessed model rests on.

    Kept are the newest runs of each pipeline, runs under way, and the newest blessed model, each
    with all that it was made from. The record of a run stays.

    Example: penstock runs prune runs/taxi --keep 3
    """
    from penstock.pipelines.cli.work import runs

    store = mysql.mysql_store(
        metadata_mysql_host, metadata_mysql_port, metadata_mysql_database, metadata_mysql_tls
    )
    runs.prune_runs(where, store, keep=keep, yes=yes, interrupted=interrupted)
