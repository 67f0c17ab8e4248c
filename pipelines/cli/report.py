"""`penstock report`: one page of what a run did, or of what two runs do differently."""

from pathlib import Path
from typing import Annotated

import typer

from penstock.pipelines.runs.metadata_store import MYSQL_PASSWORD, MYSQL_USER, MySqlStore


def command(
    run: Annotated[
        str | None,
        typer.Argument(
            metavar="[RUN]", help="A run's folder, metadata file or id; the newest run without."
        ),
    ] = None,
    other: Annotated[
        str | None,
        typer.Argument(metavar="[RUN_B]", help="A second run: what changed, and what it did."),
    ] = None,
    out: Annotated[
        Path | None, typer.Option(help="The page. [report.html beside the metadata]")
    ] = None,
    root: Annotated[str, typer.Option(help="Folder in which run ids are looked for.")] = "runs",
    metadata_mysql_host: Annotated[
        str | None,
        typer.Option(help=f"MySQL server instead; {MYSQL_USER} and {MYSQL_PASSWORD} log in."),
    ] = None,
    metadata_mysql_port: Annotated[int, typer.Option(help="Its port.")] = MySqlStore.port,
    metadata_mysql_database: Annotated[
        str, typer.Option(help="Its database.")
    ] = MySqlStore.database,
) -> None:
    """Write one self-contained HTML page about a run of any TFX pipeline, or about two.

    Works from the metadata store and the artifacts alone, so also for a run of yesterday, on
    Kubeflow, or by another runner. An id may be cut short: its beginning is enough.

    Example: penstock report runs/taxi --out report.html
    """
    store = None
    if metadata_mysql_host is not None:
        store = MySqlStore(metadata_mysql_host, metadata_mysql_port, metadata_mysql_database)
    # The store, TensorFlow and Matplotlib take seconds to import; --help needs none of them.
    from penstock.pipelines.cli.work.report import report

    typer.echo(report(run, other, out=out, root=root, store=store))
