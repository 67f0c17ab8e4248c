"""`penstock report`: one page that shows a run, or compares several runs."""

import html
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from penstock.components.errors import UsageError
from penstock.components.files.commit import check_file
from penstock.pipelines.cli.option_flags import Overwrite, Root
from penstock.pipelines.terminal.noise import noise_to_log
from penstock.pipelines.terminal.tables import plain

MOST_RUNS = 4


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
        Path | None, typer.Option(help="File of the page. [report.html beside the metadata]")
    ] = None,
    overwrite: Overwrite = False,
    root: Root = "runs",
) -> None:
    """Write one self-contained HTML page that shows a run of any TFX pipeline, or compares runs.

    Reads only the metadata store and the artifacts, so it works for old runs, runs on Kubeflow and
    runs by other runners. For an id, its first characters are enough.

    Example: penstock report runs/taxi --out report.html
    """
    page = report(*runs or (), out=out, root=root, overwrite=overwrite)
    typer.echo(plain(str(page.path)))


@dataclass(frozen=True)
class ReportPage:
    """Path of a written page; a notebook shows the page itself."""

    path: Path

    def __fspath__(self) -> str:
        return str(self.path)

    def _repr_html_(self) -> str:
        page = html.escape(self.path.read_text(encoding="utf-8"))
        return f'<iframe srcdoc="{page}" width="100%" height="700"></iframe>'


def report(
    *runs: str,
    out: str | os.PathLike[str] | None = None,
    root: str = "runs",
    overwrite: bool = False,
) -> ReportPage:
    """Writes one self-contained HTML page that shows a run of any TFX pipeline, or compares runs.

    Args:
        *runs: Folder, metadata file, mysql:// address or id of each run; by default the newest run.
            Two to four runs are compared: what changed, and its effect on the metrics.
        out: File of the page; by default `report.html` next to the metadata, or `comparison.html`
            for several runs.
        root: Folder or mysql:// address in which runs are searched for by id.
        overwrite: Replace a file at `out`.

    Returns:
        Path of the page; a notebook shows the page itself.

    Raises:
        UsageError: A run does not exist, more than four are given, or `out` exists.
        DataError: The metadata cannot be read, or the page cannot be written.
    """
    if len(runs) > MOST_RUNS:
        raise UsageError(f"at most {MOST_RUNS} runs fit beside each other, got {len(runs)}")
    if out is not None:
        check_file(out, overwrite=overwrite)
    # The metadata store, TensorFlow and Matplotlib take seconds to import, so wrong arguments are
    # reported before that.
    from penstock.pipelines.runs.stores import locate

    with noise_to_log():
        places = [locate(run, root) for run in runs or (None,)]
        last = places[-1]
        from penstock.pipelines.reporting.compare import compare
        from penstock.pipelines.reporting.gather import gather
        from penstock.pipelines.reporting.page import render_comparison, render_report
        from penstock.pipelines.reporting.write import COMPARISON_NAME, write_page

        found = [gather(place.run, place.earlier) for place in places]
        is_one = len(found) == 1
        page = Path(out or last.folder / (last.report_name if is_one else COMPARISON_NAME))
        write_page(render_report(found[0]) if is_one else render_comparison(compare(found)), page)
        return ReportPage(page)
