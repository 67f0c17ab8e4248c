"""Finds the data files of a path, a glob or a folder, and leaves stray files out."""

import fnmatch
import glob
import logging
import os
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import TypeVar

from penstock.components.errors import DataError, UsageError, counted
from penstock.components.files.remote import (
    RemoteFile,
    find_below,
    find_files,
    has_glob,
    is_remote,
    list_folder,
    normal_address,
)
from penstock.components.files.retry import retry_local
from penstock.components.tfrecord.recovery import recover

_LOG = logging.getLogger(__name__)

PathT = TypeVar("PathT", bound=str)

# Suffixes by which kinds are recognised; other kinds must be named.
EXTENSIONS = {
    "csv": (".csv", ".tsv", ".psv", ".txt", ".tab"),
    "parquet": (".parquet", ".pq", ".parq"),
    "arrow": (".arrow", ".arrows", ".feather"),
    "orc": (".orc",),
    "jsonl": (".jsonl", ".ndjson"),
    "avro": (".avro",),
    "tfrecord": (".tfrecord", ".tfrecords"),
}
_IMAGES = (".jpg", ".jpeg", ".png", ".gif", ".bmp", ".webp", ".tif", ".tiff")
# Kinds whose files may lie in folders `column=value`, which add columns; None if not known yet.
_PARTITIONED = ("csv", "parquet", "arrow", "orc", "jsonl", "avro", None)
_DELTA_LOG = "_delta_log"
# Maximum number of files to look at for advice, as a folder may have millions.
_MAX_LOOKED_AT = 1000
# Suffixes of compressed files, after the suffix of their kind.
COMPRESSED = re.compile(r"\.(gz|bz2|xz|zst|zip)$")
_STRAY = re.compile(
    r"^[._]|^thumbs\.db$|^readme\b|^license\b|\.(crc|md|tmp|_copying_|swp|bak|pbtxt|json|ya?ml)$|~$",
    re.I,
)


@dataclass(frozen=True)
class Listing:
    """Data files in reading order, and the files beside them that are ignored."""

    files: tuple[str, ...]
    ignored: tuple[str, ...]


def list_files(pattern: str | Sequence[str], kind: str | None) -> Listing:
    """Finds the data files of one or several patterns: a file, a folder (not recursive), a glob.

    A path of a file is accepted whatever its name. In a glob or a folder, hidden files, markers
    (`_SUCCESS`), checksums and READMEs are ignored. In a folder, if some files have a suffix of the
    kind (a key of `EXTENSIONS`; None: of any kind), all other files are ignored.
    """
    patterns = [pattern] if isinstance(pattern, str) else list(pattern)
    if not patterns:
        raise UsageError("no input: name a file, a folder or a glob")
    listings = [_list_one(os.fspath(one), kind) for one in patterns]
    files = _once(path for listing in listings for path in listing.files)
    ignored = _once(path for listing in listings for path in listing.ignored)
    ignored = {place: path for place, path in ignored.items() if place not in files}
    if ignored:
        _LOG.info(
            "ignored %s: %s", counted(len(ignored), "stray file"), ", ".join(ignored.values())
        )
    return Listing(tuple(files.values()), tuple(ignored.values()))


def _once(paths: Iterable[str]) -> dict[str, str]:
    """Maps absolute to given paths, so that a file matched by several patterns counts once."""
    return {identity(path): path for path in paths}


def identity(path: str) -> str:
    """Returns the absolute path or the address of a file, equal for all names of the file."""
    return str(path) if isinstance(path, RemoteFile) else os.path.abspath(path)


def _list_one(pattern: str, kind: str | None) -> Listing:
    recover(pattern)
    if is_remote(pattern):
        files, is_one = find_files(pattern)
        if is_one:
            return Listing(tuple(files), ())
        if not has_glob(pattern) and kind in _PARTITIONED:
            _, folders = list_folder(pattern)
            _check_no_table(pattern, folders)
            if not files or any("=" in name for name in folders):
                place, tree = normal_address(pattern).rstrip("/"), find_below(pattern)
                _check_no_table(pattern, [file.removeprefix(f"{place}/") for file in tree])
                files = [*files, *_partitioned(place, tree, kind)]
        listing = _without_stray(files)
        if not has_glob(pattern):
            listing = _by_extension(listing, kind)
    elif os.path.isfile(pattern):
        return Listing((pattern,), ())
    elif os.path.isdir(pattern):
        names = retry_local(pattern, lambda: os.listdir(pattern))
        metadata = glob.iglob(os.path.join(glob.escape(pattern), "metadata", "*.metadata.json"))
        _check_no_table(
            pattern, [*names, *("metadata/*.metadata.json" for _ in islice(metadata, 1))]
        )
        found = [path for name in names if not os.path.isdir(path := os.path.join(pattern, name))]
        if kind in _PARTITIONED and any("=" in name for name in names):
            below = glob.iglob(os.path.join(glob.escape(pattern), "*=*", "**"), recursive=True)
            files_below = [path for path in below if not os.path.isdir(path)]
            found += _partitioned(pattern, files_below, kind)
        listing = _by_extension(_without_stray(found), kind)
        plain = [name for name in names if "=" not in name]
        if kind and listing.files and (left_out := _data_below(pattern, plain)):
            _LOG.warning("%s: %s", pattern, left_out)
    elif glob.has_magic(pattern):
        found = glob.glob(pattern, recursive=True)
        listing = _without_stray(path for path in found if not os.path.isdir(path))
    elif os.path.exists(pattern):
        raise DataError(
            f"{pattern}: not a regular file; save the output of a pipe or a device in one"
        )
    else:
        raise DataError(f"{pattern}: no such file or folder")
    if not listing.files:
        beside = f" but {', '.join(listing.ignored)}, which are not data" if listing.ignored else ""
        advice = _advice(pattern, listing.ignored)
        raise DataError(f"{pattern}: no data file matches{beside}; {advice}")
    for path in listing.files:
        if not isinstance(path, RemoteFile) and not os.path.isfile(path):
            raise DataError(f"{path}: a broken link, a pipe or a device; mend or remove it")
    return listing


def _check_no_table(folder: str, names: Iterable[str]) -> None:
    """Raises DataError for the folder of a table whose log or metadata list its files."""
    for name in names:
        if name.split("/")[0] == _DELTA_LOG:
            kind, table = "delta", "a Delta table, whose log decides"
        elif fnmatch.fnmatchcase(name, "metadata/*.metadata.json"):
            kind, table = "iceberg", "an Iceberg table, whose metadata decide"
        else:
            continue
        raise DataError(f"{folder}: is {table} which of its files count; say --kind {kind}")


def _partitioned(root: str, paths: Sequence[PathT], kind: str | None) -> list[PathT]:
    """Returns the files for which all folders below the root are `column=value`."""
    found, left_out = [], []
    for path in paths:
        folders = os.path.dirname(path[len(root) :].lstrip("/")).split("/")
        if all("=" in folder[1:] and folder[0] not in "._" for folder in folders):
            found.append(path)
        elif "=" in folders[0] and not any(one.startswith((".", "_")) for one in folders):
            left_out += [path] if _is_data(path) else []
    if kind and left_out:
        _LOG.warning(
            "%s: left out %s in folders that are not column=value, such as %s",
            root, counted(len(left_out), "data file"), left_out[0],
        )  # fmt: skip
    return found


def _is_data(path: str) -> bool:
    known = tuple(one for extensions in EXTENSIONS.values() for one in extensions)
    return COMPRESSED.sub("", path.lower()).endswith(known)


def _data_below(folder: str, names: Sequence[str]) -> str | None:
    """Returns advice if folders in a folder hold data files, since they are not searched."""
    folders = sorted(name for name in names if name[0] not in "._")
    below = (
        (name, file)
        for name in folders
        for _, _, files in os.walk(os.path.join(folder, name))
        for file in files
    )
    holding = {
        name: f"{folder}/**/*{os.path.splitext(file)[1]}"
        for name, file in islice(below, _MAX_LOOKED_AT)
        if _is_data(file)
    }
    if not holding:
        return None
    return (
        f"does not include the data files in its folders {', '.join([*holding][:4])}; to read them "
        f"too, name them or a glob as '{next(iter(holding.values()))}'"
    )


def _advice(pattern: str, ignored: Sequence[str]) -> str:
    if any(path.endswith("/dataset_dict.json") for path in ignored):
        return "a data set of Hugging Face: name each folder in it, --input-split train=.../train"
    if any(path.endswith(".json") for path in ignored):
        return "JSON is read as one object a line (.jsonl), which `jq -c '.[]'` makes of an array"
    if not is_remote(pattern) and os.path.isdir(pattern):
        below = (os.path.join(folder, f) for folder, _, names in os.walk(pattern) for f in names)
        if any(path.lower().endswith(_IMAGES) for path in islice(below, _MAX_LOOKED_AT)):
            return "there are images below it: say --kind images"
        if left_out := _data_below(pattern, os.listdir(pattern)):
            return left_out
    return "expected at least one"


def _without_stray(paths: Iterable[str]) -> Listing:
    files = sorted(paths)
    stray = {path for path in files if _STRAY.search(os.path.basename(path))}
    return Listing(tuple(path for path in files if path not in stray), tuple(sorted(stray)))


def _by_extension(listing: Listing, kind: str | None) -> Listing:
    groups = (EXTENSIONS.get(kind, ()),) if kind else EXTENSIONS.values()
    known = tuple(extension for group in groups for extension in group)
    plain = {path: COMPRESSED.sub("", path.lower()) for path in listing.files}
    files = tuple(path for path in listing.files if plain[path].endswith(known))
    if not files:
        return listing
    others = tuple(path for path in listing.files if path not in files)
    return Listing(files, tuple(sorted(listing.ignored + others)))
