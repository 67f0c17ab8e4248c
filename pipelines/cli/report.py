"""`penstock report`: one page of what a run did, or of what several do differently."""

from pathlib import Path
from typing import Annotated

import typer

from penstock.pipelines.cli import mysql_flags as mysql


def command(
    runs: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[RUN]...",
            help="A run's folder, metadata file or id; the newest without. Two to ten: compared.",
        ),
    ] = None,
    out: Annotated[
        Path | None, typer.Option(help="The page. [report.html beside the metadata]")
    ] = None,
    root: Annotated[str, typer.Option(help="Folder in which run ids are looked for.")] = "runs",
    metadata_mysql_host: mysql.Host = None,
    metadata_mysql_port: mysql.Port = mysql.PORT,
    metadata_mysql_database: mysql.Database = mysql.DATABASE,
    metadata_mysql_tls: mysql.Tls = None,
) -> None:
    """Write one self-contained HTML page about a run of any TFX pipeline, or several compared.

    Works from the metadata store and the artifacts alone, so also for a run of yesterday, on
    Kubeflow, or by another runner. An id may be cut short: its beginning is enough.

    Example: penstock report runs/taxi --out report.html
    """
    store = mysql.mysql_store(
        metadata_mysql_host, metadata_mysql_port, metadata_mysql_database, metadata_mysql_tls
    )
    # The store, TensorFlow and Matplotlib take seconds to import; --help needs none of them.
    from penstock.pipelines.cli.work.report import report

    typer.echo(report(runs or (), out=out, root=root, store=store))
