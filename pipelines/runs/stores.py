"""Finds the run that a user names by a folder, a metadata file or a run id."""

import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from heapq import merge
from pathlib import Path

from penstock.components.errors import DataError, UsageError, one_line
from penstock.pipelines.runs.metadata_store import (
    MetadataStore,
    SqliteStore,
    is_address,
    is_metadata,
    open_reading,
    store_of,
)
from penstock.pipelines.runs.run_record import RunRecord, all_runs

REPORT_NAME = "report.html"
# The pipelines of this package keep metadata.sqlite in the run's folder; TFX's examples keep
# metadata/<pipeline>/metadata.db. Other people's pipelines may use other names.
_FILES = ("metadata.sqlite", "metadata.db")
_ENDINGS = (".sqlite", ".db")
_DEEPEST = 3


@dataclass(frozen=True)
class Place:
    """A run, and the store that contains it."""

    store: MetadataStore
    run: RunRecord
    earlier: Sequence[RunRecord]
    """The runs of the same pipeline before `run`, the newest first."""

    @property
    def folder(self) -> Path:
        """Default folder of HTML pages.

        It is the folder of the metadata file or, for MySQL, the working directory.
        """
        return Path(self.store.path).parent if isinstance(self.store, SqliteStore) else Path()

    @property
    def report_name(self) -> str:
        """Default name of the run's report."""
        if not isinstance(self.store, SqliteStore):
            return REPORT_NAME
        return report_name(self.store.path, self.run.pipeline)


def report_name(metadata: str, pipeline: str) -> str:
    """Returns the name of a run's report next to a metadata file.

    If the file's name is not in `_FILES`, the folder may contain stores of other pipelines, so the
    report has the pipeline's name: `mine-report.html`.
    """
    if os.path.basename(metadata) in _FILES:
        return REPORT_NAME
    return f"{re.sub(r'[^A-Za-z0-9_.-]', '-', pipeline)}-{REPORT_NAME}"


def find_stores(where: str) -> Sequence[MetadataStore]:
    """Returns the stores at most three levels below a folder, or the store of a file or address."""
    path = Path(where)
    if path.is_file() or is_address(where):
        return [store_of(where)]
    advice = "name the folder of a run or its metadata file"
    try:
        os.listdir(path)  # `os.walk` would ignore this error
    except OSError as error:
        raise DataError(f"{one_line(error)}; {advice}") from error
    found: list[SqliteStore] = []
    for folder, below, files in os.walk(path):
        paths = [os.path.join(folder, name) for name in files if name.endswith(_ENDINGS)]
        found += [
            SqliteStore(file)
            for file in paths
            if os.path.basename(file) in _FILES or is_metadata(file)
        ]
        if any(name in files for name in _FILES):
            below.clear()  # these folders contain artifacts of runs
        if len(Path(folder).relative_to(path).parts) >= _DEEPEST:
            below.clear()
    if not found:
        raise DataError(
            f"{where}: no metadata of runs (an MLMD store, *{' or *'.join(_ENDINGS)}); {advice}"
        )
    return sorted(found, key=lambda store: store.path)


def is_run(path: str) -> bool:
    """Returns whether a path is a metadata file or a run's folder, not data."""
    if os.path.isdir(path):
        return any(os.path.isfile(os.path.join(path, name)) for name in _FILES)
    return path.endswith(_ENDINGS) and is_metadata(path)


def newest_first(stores: Sequence[MetadataStore]) -> list[tuple[MetadataStore, RunRecord]]:
    """Returns all runs, newest first.

    The runs of one store are ordered by id, because the clocks of machines may differ.
    """
    by_store = []
    for store in stores:
        with open_reading(store) as opened:
            by_store.append([(store, run) for run in all_runs(opened)])
    return list(merge(*by_store, key=lambda pair: -pair[1].began))


def find_run(what: str | None, stores: Sequence[MetadataStore]) -> Place:
    """Returns the run whose id is `what` or begins with it; without `what`, the newest of all."""
    found = matching = newest_first(stores)
    if not found:
        raise UsageError(f"{', '.join(map(str, stores))}: there is no run in there yet")
    if what is not None:
        exact = [pair for pair in found if pair[1].run_id == what]
        matching = exact or [pair for pair in found if pair[1].run_id.startswith(what)]
        ids = ", ".join(run.run_id for _, run in (matching or found)[:3])
        if not matching:
            raise UsageError(
                f"no run {what!r}; the newest known: {ids} (penstock runs list has all)"
            )
        if len(matching) > 1:
            raise UsageError(f"run {what!r} may be {ids}; write more of its id")
    store, run = matching[0]
    same = [r for s, r in found if s == store and r.pipeline == run.pipeline]
    return Place(store, run, same[same.index(run) + 1 :])


def locate(what: str | None, root: str) -> Place:
    """Returns the run that an argument names by folder, store or id; without it, the newest run.

    Searches `root` unless `what` is a path or an address.
    """
    if what is not None and (os.path.exists(what) or is_address(what)):
        return find_run(None, find_stores(what))
    if what is not None and os.sep in what:
        raise UsageError(f"{what}: no such folder or file; RUN is a run's folder or its id")
    try:
        return find_run(what, find_stores(root))
    except DataError as error:
        run = f"run {what!r}: " if what else ""
        raise DataError(f"{run}{error}, or another --root") from error
