"""`penstock report`: one page of what a run did, or of what several do differently."""

from pathlib import Path
from typing import Annotated

import typer

from penstock.pipelines.cli.option_flags import Overwrite, Root


def command(
    runs: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[RUN]...",
            help="A run's folder, metadata file, id or mysql://HOST[:PORT]/DATABASE[?tls=FOLDER]; "
            "the newest without. Two to four: compared.",
        ),
    ] = None,
    out: Annotated[
        Path | None, typer.Option(help="The page. [report.html beside the metadata]")
    ] = None,
    overwrite: Overwrite = False,
    root: Root = "runs",
) -> None:
    """Write one self-contained HTML page about a run of any TFX pipeline, or several compared.

    Works from the metadata store and the artifacts alone, so also for a run of yesterday, on
    Kubeflow, or by another runner. An id may be cut short: its beginning is enough.

    Example: penstock report runs/taxi --out report.html
    """
    # The store, TensorFlow and Matplotlib take seconds to import; --help needs none of them.
    from penstock.pipelines.cli.work.report import report

    typer.echo(report(runs or (), out=out, root=root, overwrite=overwrite))
