"""The sources of an ingest in a file beside its output, which each worker loads once.

Beam carries what a DoFn holds to its workers some dozen times, each time compressed by bz2. Of a
list of a million images that takes longer than to read them; so a DoFn holds the file's name.
"""

import functools
import pickle
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from penstock.components.example_gen.split_options import SplitOptions
from penstock.components.sources.base import Source

SourceOfSplits = tuple[Source, SplitOptions]


@dataclass(frozen=True)
class SharedSources:
    """Where the sources are, and the splits of each; made by `share_sources`."""

    path: Path

    def __getitem__(self, which: int) -> SourceOfSplits:
        return _load(self.path)[which]


@contextmanager
def share_sources(sources: Sequence[SourceOfSplits], folder: Path) -> Iterator[SharedSources]:
    """Write the file, and remove it at the end.

    Args:
        sources: Must be picklable.
        folder: Of this ingest alone; shared with its workers.
    """
    path = folder / ".sources.pickle"
    path.write_bytes(pickle.dumps(list(sources), pickle.HIGHEST_PROTOCOL))
    try:
        yield SharedSources(path)
    finally:
        path.unlink(missing_ok=True)
        _load.cache_clear()


@functools.lru_cache(maxsize=1)
def _load(path: Path) -> list[SourceOfSplits]:
    with path.open("rb") as file:
        sources: list[SourceOfSplits] = pickle.load(file)
    return sources
