"""The work of `penstock report`."""

import html
from dataclasses import dataclass
from pathlib import Path

from penstock.pipelines.runs.metadata_store import MetadataStore
from penstock.pipelines.runs.stores import locate
from penstock.pipelines.terminal.noise import noise_to_log


@dataclass(frozen=True)
class ReportPage:
    """A page that was written; a notebook shows it in place."""

    path: Path

    def __fspath__(self) -> str:
        return str(self.path)

    def _repr_html_(self) -> str:
        page = html.escape(self.path.read_text(encoding="utf-8"))
        return f'<iframe srcdoc="{page}" width="100%" height="700"></iframe>'


def report(
    run: str | None,
    other: str | None,
    *,
    out: Path | None,
    root: str,
    store: MetadataStore | None,
) -> Path:
    """Write the page of a run, or of two, and return where.

    Raises:
        UsageError: There is no such run.
        DataError: The metadata cannot be read, or the page not be written.
    """
    with noise_to_log():
        place = locate(run, root, store)
        if other is None:
            from penstock.pipelines.reporting.write import write_report

            out = out or place.folder / place.report_name
            write_report(place.run, place.earlier, out)
            return out
        second = locate(other, root, store)
        from penstock.pipelines.reporting.compare import compare
        from penstock.pipelines.reporting.gather import gather
        from penstock.pipelines.reporting.page import render_comparison
        from penstock.pipelines.reporting.write import COMPARISON_NAME, write_page

        out = out or second.folder / COMPARISON_NAME
        before, after = (gather(p.run, p.earlier) for p in (place, second))
        write_page(render_comparison(compare(before, after)), out)
        return out
