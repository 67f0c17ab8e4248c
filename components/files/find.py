"""Finds the files of an input: a file, a folder or a glob, on a path or at an address.

Input: files, folders or globs, and the kind of their data. Output: the files in reading order, with
their names below the input; also the files that are certainly not data, and those that are refused.
"""

import fnmatch
import glob
import logging
import os
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache, cached_property
from itertools import islice
from typing import Any, NoReturn

from penstock.components.errors import DataError, UsageError, counted, one_line
from penstock.components.files import remote
from penstock.components.files.remote import RemoteFile, has_glob, is_remote
from penstock.components.files.retry import retry_local
from penstock.components.tfrecord.manifest import DIGESTS_NAME, MANIFEST_NAME
from penstock.components.tfrecord.recovery import recover

_LOG = logging.getLogger(__name__)

# Suffixes from which a file's kind is recognised; other kinds must be named by the user.
EXTENSIONS = {
    "csv": (".csv", ".tsv", ".psv", ".txt", ".tab"),
    "parquet": (".parquet", ".pq", ".parq"),
    "arrow": (".arrow", ".arrows", ".feather"),
    "orc": (".orc",),
    "jsonl": (".jsonl", ".ndjson"),
    "avro": (".avro",),
    "tfrecord": (".tfrecord", ".tfrecords"),
}
# Suffixes of compressed files, which follow the suffix of the kind.
COMPRESSED = re.compile(r"\.(gz|bz2|xz|zst|zip)$")
# Kind of finished shards: files in folders of any depth, which need no suffix. Only callers of
# `find` use it; it is not among the kinds of sources.
SHARDS = "shards"
# Kinds whose files may be in folders `column=value`, which add columns; None: kind not known yet.
_PARTITIONED = ("csv", "parquet", "arrow", "orc", "jsonl", "avro", None)
# Log folder of a Delta table, and metadata files of an Iceberg table, as patterns below the table's
# own folder.
_TABLE_FILES = ("_delta_log", "metadata/*.metadata.json")
# Maximum number of files to name in a message, and maximum number to search for advice: there may
# be millions.
_MAX_NAMED = 20
_MAX_SEARCHED = 1000

# Names that are not data for any kind: hidden files, markers, READMEs, checksums, and files that
# editors and operating systems leave. Names with a leading `_` are not among them, because cameras
# write _DSC0001.JPG.
_STRAY = (
    r"^\.|^_SUCCESS$|^__MACOSX/?$|^(readme|licen[cs]e)(\.(md|txt|rst|html?))?$|^thumbs\.db$"
    r"|^desktop\.ini$|~$"
    r"|\.(crc|tmp|swp|bak|_copying_)/?$"
)


@dataclass(frozen=True)
class _Rules:
    """Rules by which the files of a kind are found.

    `stray` matches names that are not data; folders are matched by their names with a final slash.
    `deep` kinds have files in folders of any depth. Without `links`, only links to files below the
    same input are followed; all other links, pipes and devices are refused.
    """

    what: str
    stray: str = r"^\."
    deep: bool = False
    links: bool = True

    @cached_property
    def is_stray(self) -> Callable[[str], Any]:
        return re.compile(f"{_STRAY}|{self.stray}", re.IGNORECASE).search


_TABLES = _Rules("data file", r"^_|\.(md|pbtxt|json|ya?ml)$")
_DOCUMENTS = _Rules("file", deep=True, links=False)
_RULES = {
    "text": _DOCUMENTS,
    "binary": _DOCUMENTS,
    "requests": _Rules("log file", deep=True),
    "images": _Rules(
        "image file",
        r"\.(txt|[ct]sv|jsonl?|xml|ya?ml|md|html?|mat|np[yz]|h5|hdf5|pbtxt|parquet|pkl|pth?|ini|db"
        r"|log|py|sh|ipynb)$",
        deep=True,
        links=False,
    ),
    # `beam-temp-`: the folder of unfinished files that Beam leaves if an engine repeats a task.
    SHARDS: _Rules(
        "TFRecord file", r"^_|^beam-temp-|\.(csv|jsonl?|md|pbtxt|txt|ya?ml)$", deep=True
    ),
}


@dataclass(frozen=True)
class FoundFile:
    path: str  # Local path, or a `RemoteFile`.
    name: str  # Path below the input folder, with `/` as the separator.

    @property
    def folder(self) -> str | None:
        """Name of the folder right below the input folder; None if the file is not in one."""
        first, slash, _ = self.name.partition("/")
        return first if slash else None


@dataclass
class Found:
    """Files of inputs in reading order, and the files that are left out."""

    entries: list[FoundFile] = field(default_factory=list)
    ignored: list[str] = field(default_factory=list)  # Paths that are certainly not data
    refused: dict[str, str] = field(default_factory=dict)  # Reason for each refused file, by path

    @property
    def files(self) -> tuple[str, ...]:
        return tuple(file.path for file in self.entries)


def find(inputs: str | Sequence[str], kind: str | None) -> Found:
    """Finds the data files of one or several inputs; the kind None means any kind of table.

    A file that is named explicitly is taken, whatever its name. In a glob or a folder, hidden
    files, markers (`_SUCCESS`), checksums and READMEs are ignored. In a folder of tables, only
    folders `column=value` are searched; if some files have a suffix of the kind, all files without
    it are ignored. Names are relative to an input folder or, for a glob, to the last folder before
    the first wildcard.
    """
    given = [inputs] if isinstance(inputs, str) else list(inputs)
    if not given:
        raise UsageError("no input: name a file, a folder or a glob")
    rules = _RULES.get(kind or "", _TABLES)
    parts = [_find_one(os.fspath(one), kind, rules) for one in given]
    entries: dict[str, FoundFile] = {}
    for file in (file for part in parts for file in part.entries):
        entries.setdefault(identity(file.path), file)
    ignored = {identity(path): path for part in parts for path in part.ignored}
    found = Found(list(entries.values()), [p for at, p in ignored.items() if at not in entries])
    for part in parts:
        found.refused |= part.refused
    if rules.deep:
        found.entries.sort(key=lambda file: (file.name, file.path))
        found.ignored.sort()
    if found.ignored:
        names = _shown(found.ignored)
        _LOG.info("ignored %s: %s", counted(len(found.ignored), "stray file"), names)
    return found


def identity(path: str) -> str:
    """Returns a file's absolute path or its address, which is the same however it was named."""
    return str(path) if isinstance(path, RemoteFile) else os.path.abspath(path)


def _find_one(one: str, kind: str | None, rules: _Rules) -> Found:
    recover(one)
    found = Found()
    if is_remote(one):
        one = remote.normal_address(one)
        files, is_one = remote.find_files(one, deep=rules.deep)
        if is_one:
            return Found([FoundFile(files[0], os.path.basename(files[0]))])
        _add(one, _below_address(one, files, kind, rules), found, rules)
    elif os.path.isfile(one):
        return Found([FoundFile(one, os.path.basename(one))])
    elif os.path.isdir(one) or glob.has_magic(one):
        try:
            paths = retry_local(one, lambda: list(_below_path(one, kind, rules, found)))
        except OSError as error:
            raise DataError(f"cannot be listed: {one_line(error)}") from error
        _add(one, paths, found, rules)
    elif os.path.exists(one):
        raise DataError(f"{one}: not a regular file; save the output of a pipe or a device in one")
    else:
        raise DataError(f"{one}: no such file or folder")
    if not rules.deep:
        _choose(one, found, kind)
    if kind == SHARDS:
        own = (MANIFEST_NAME, DIGESTS_NAME)
        found.ignored = [path for path in found.ignored if os.path.basename(path) not in own]
    if not found.entries and not found.refused:
        found.ignored.sort()
        beside = f" but {_shown(found.ignored)}, which are not data" if found.ignored else ""
        left_out = None if rules.deep else _left_out(one)
        raise DataError(
            f"{one}: no {rules.what} matches{beside}; {left_out or 'expected at least one'}"
        )
    for path in () if rules.deep or is_remote(one) else found.files:
        if not os.path.isfile(path):
            raise DataError(f"{path}: a broken link, a pipe or a device; mend or remove it")
    return found


def _add(one: str, paths: Iterable[str], found: Found, rules: _Rules) -> None:
    """Sorts the paths or addresses found for an input into data, stray files and refused files."""
    root = _root(one)
    is_local = not is_remote(one)
    refusal = _refusal(root) if is_local and not rules.links else None
    has_folders = is_local and rules.links and rules.deep
    for path in paths:
        name = _below(root, path)
        *folders, last = name.split("/")
        # Local stray folders need no check here, because they were not searched.
        above = [] if is_local or not rules.deep else [f"{folder}/" for folder in folders]
        if any(map(rules.is_stray, (*above, last))):
            found.ignored.append(path)
        elif refusal and (reason := refusal(path)):
            found.refused[path] = reason
        elif has_folders and os.path.isdir(path):
            found.ignored.append(path)  # a link to a folder
        else:
            found.entries.append(FoundFile(path, name))


def _below_address(
    one: str, files: Sequence[RemoteFile], kind: str | None, rules: _Rules
) -> Sequence[RemoteFile]:
    """Returns `files`; for a table's folder also the files in its folders `column=value`."""
    if rules.deep or has_glob(one) or kind not in _PARTITIONED:
        return files
    _, folders = remote.list_folder(one)
    _check_no_table(one, folders)
    if files and not any("=" in name for name in folders):
        return files
    root = _root(one)
    tree = remote.find_below(one)
    _check_no_table(one, [_below(root, file) for file in tree])
    return [file for file in tree if _is_of_table(os.path.dirname(_below(root, file)))]


def _below_path(one: str, kind: str | None, rules: _Rules, found: Found) -> Iterator[str]:
    """Yields the files of a folder or a glob; for a `deep` kind, also links to folders."""
    if os.path.isdir(one):
        if not rules.deep:
            _check_no_table(one, (n for p in _TABLE_FILES for n in glob.iglob(p, root_dir=one)))
        yield from _walked(one, kind, rules, found)
        return
    root, walked = _root(one).rstrip("/"), set[str]()
    for match in sorted(glob.iglob(one, recursive=True)):
        path = match.rstrip("/")
        is_folder = os.path.isdir(path)
        if not rules.deep:
            yield from () if is_folder else (path,)
        elif os.path.dirname(path) in walked:  # `**` also matches a matched folder's content
            walked.add(path)
        elif path == root or (is_folder and _is_searched(path, rules)):
            walked.add(path)
            yield from _walked(path or "/", kind, rules, found)
        else:
            yield path


def _walked(folder: str, kind: str | None, rules: _Rules, found: Found) -> Iterator[str]:
    """Yields the files of a folder and of its subfolders.

    For a kind of table, only subfolders `column=value` are searched; for a `deep` kind, all except
    stray folders and links.
    """

    def failed(error: OSError) -> NoReturn:
        raise error

    for at, folders, names in os.walk(folder, onerror=failed, followlinks=not rules.deep):
        paths = {name: os.path.join(at, name) for name in folders}
        if not rules.deep:
            folders[:] = [name for name in folders if kind in _PARTITIONED and _is_of_table(name)]
        else:
            folders[:] = [name for name, path in paths.items() if _is_searched(path, rules)]
            links = [path for path in paths.values() if os.path.islink(path)]
            found.ignored += {*paths.values()} - {*links, *(paths[name] for name in folders)}
            yield from links
        yield from (os.path.join(at, name) for name in names)


def _is_searched(folder: str, rules: _Rules) -> bool:
    return not os.path.islink(folder) and not rules.is_stray(f"{os.path.basename(folder)}/")


def _is_of_table(folders: str) -> bool:
    """Returns whether all folders of a path are named `column=value`; True without folders."""
    return all("=" in one[1:] and one[0] not in "._" for one in folders.split("/") if one)


def _choose(one: str, found: Found, kind: str | None) -> None:
    """Sorts the files of tables; from a folder, keeps only files of the kind if there are any."""
    found.entries.sort(key=lambda file: file.path)
    if os.path.isdir(one) or not has_glob(one):
        chosen = [file for file in found.entries if _is_data(file.path, kind)]
        if chosen:
            found.ignored += {file.path for file in found.entries} - {file.path for file in chosen}
            found.entries = chosen
    found.ignored.sort()
    if kind and found.entries and (left_out := _left_out(one)):
        _LOG.warning("%s: %s", one, left_out)


def _check_no_table(folder: str, names: Iterable[str]) -> None:
    """Raises DataError for the folder of a Delta or Iceberg table."""
    for name in names:
        if name.split("/")[0] == _TABLE_FILES[0]:
            kind, table = "delta", "a Delta table, whose log decides"
        elif fnmatch.fnmatchcase(name, _TABLE_FILES[1]):
            kind, table = "iceberg", "an Iceberg table, whose metadata decide"
        else:
            continue
        raise DataError(f"{folder}: is {table} which of its files count; say --kind {kind}")


def _is_data(path: str, kind: str | None) -> bool:
    groups = (EXTENSIONS.get(kind, ()),) if kind else EXTENSIONS.values()
    known = tuple(extension for group in groups for extension in group)
    return COMPRESSED.sub("", path.lower()).endswith(known)


def _left_out(one: str) -> str | None:
    """Returns advice if a local folder has data files in subfolders, which are not searched."""
    if is_remote(one) or not os.path.isdir(one):
        return None
    for name in islice(glob.iglob("*/**/*.*", root_dir=one, recursive=True), _MAX_SEARCHED):
        is_stray_or_read = "/_" in f"/{name}" or _is_of_table(os.path.dirname(name))
        if _is_data(name, None) and not is_stray_or_read:
            return (
                f"does not include data files in its folders, such as {one}/{name}; to read "
                f"them too, name a glob as '{one}/**/*{os.path.splitext(name)[1]}'"
            )
    return None


def _shown(paths: Sequence[str]) -> str:
    more = f" and {len(paths) - _MAX_NAMED:,} more" if len(paths) > _MAX_NAMED else ""
    return f"{', '.join(paths[:_MAX_NAMED])}{more}"


def _below(root: str, path: str) -> str:
    return path[len(root) :].lstrip("/")


def _root(one: str) -> str:
    """Returns the folder that names are relative to: for a glob, the last one before a wildcard."""
    if os.path.isdir(one):
        return one
    if is_remote(one) and not has_glob(one):
        return one.rstrip("/")
    parts = one.split("/")
    first = next(at for at, part in enumerate(parts) if glob.has_magic(part))
    return "/".join(parts[:first]) or ("/" if first else "")


def _refusal(root: str) -> Callable[[str], str | None]:
    """Returns a function from a path to the reason to refuse it; None if the path is accepted."""
    real_root = os.path.realpath(root)

    @cache
    def is_direct(folder: str) -> bool:
        """Returns whether a folder is inside the root, without links on its path below the root."""
        real = os.path.realpath(folder)
        is_same = real == os.path.normpath(os.path.join(real_root, _below(root, folder)))
        return is_same and _is_inside(real, real_root)

    def refusal(path: str) -> str | None:
        if not is_direct(os.path.dirname(path)):
            return f"is not below {root or '.'}, or only through a link"
        if os.path.islink(path):
            target = os.path.realpath(path)
            if not os.path.exists(target):
                return f"is a link to {target}, which is not there"
            if os.path.isdir(target):
                return f"is a link to the folder {target}; links to folders are not followed"
            if not _is_inside(target, real_root):
                return f"is a link to {target}, outside {root or '.'}; copy the file"
        return None if os.path.isfile(path) else "is neither a file nor a folder"

    return refusal


def _is_inside(real: str, real_root: str) -> bool:
    return os.path.commonpath([real, real_root]) == real_root
