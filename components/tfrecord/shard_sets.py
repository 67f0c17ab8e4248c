"""Missing members of a set of shards, from names alone: paths in, faults out."""

import os
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path

# Wider than sharding.py's own names: `images.tfrecord-00000-of-00004`,
# `images-00000-of-00004.tfrecord` and TensorFlow Datasets' all count.
_MEMBER = re.compile(r"^(?P<stem>.+)-(?P<index>\d{5,})-of-(?P<count>\d{5,})(?P<suffix>.*)$")
# A name can claim any count; after this many missing members the search ends.
_MAX_NAMED = 10


def missing_members(files: Iterable[Path]) -> Iterator[str]:
    """One line for each set of `-NNNNN-of-NNNNN` files of which some are not on disk.

    Two sets of one stem but different counts are named too: a retry left both.
    """
    counts: dict[tuple[Path, str, str], set[str]] = defaultdict(set)
    for file in files:
        if match := _MEMBER.match(file.name):
            counts[file.parent, match["stem"], match["suffix"]].add(match["count"])
    for (folder, stem, suffix), sets in sorted(counts.items()):
        on_disk = set(os.listdir(folder))
        for count in sorted(sets):
            members = (f"{stem}-{i:0{len(count)}d}-of-{count}{suffix}" for i in range(int(count)))
            missing = list(
                islice((name for name in members if name not in on_disk), _MAX_NAMED + 1)
            )
            if missing:
                yield f"{folder}: of the {int(count)} shards of {stem!r}, {_list(missing)} missing"
        if len(sets) > 1:
            names = " and ".join(f"-of-{count}" for count in sorted(sets))
            yield f"{folder}: {stem!r} has shards {names}; one set is left from another run"


def _list(missing: list[str]) -> str:
    more = " and more" if len(missing) > _MAX_NAMED else ""
    return f"{', '.join(missing[:_MAX_NAMED])}{more} {'is' if len(missing) == 1 else 'are'}"
