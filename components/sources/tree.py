"""Finds the files below an input folder, for sources with one row per file.

Folders are searched to any depth. Files that are certainly not data are left out and reported.
Links are followed only to files below the same folder.
"""

import glob
import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from penstock.components.errors import DataError, one_line
from penstock.components.files import remote
from penstock.components.files.listing import identity
from penstock.components.files.retry import retry_local
from penstock.components.tfrecord.recovery import recover

# Not data for any kind: hidden files, markers, checksums, leftovers of editors and systems. A
# leading `_` is no sign of these: cameras write _DSC0001.JPG.
STRAY = re.compile(
    r"^\.|^_SUCCESS$|^__MACOSX$|^readme\b|^licen[cs]e\b|^thumbs\.db$|^desktop\.ini$|~$"
    r"|\.(crc|tmp|swp|bak|_copying_)$",
    re.IGNORECASE,
)


@dataclass(frozen=True)
class FoundFile:
    path: str  # Local path, or a `RemoteFile`.
    name: str  # Its path below the input folder, with `/`.

    @property
    def folder(self) -> str | None:
        """Name of the folder right below the input folder; None if the file is not in one."""
        first, slash, _ = self.name.partition("/")
        return first if slash else None


@dataclass
class Tree:
    """Files below the inputs, in the order of their names."""

    files: list[FoundFile] = field(default_factory=list)
    refused: dict[str, str] = field(default_factory=dict)  # Reason by path of each refused file.
    ignored: list[str] = field(default_factory=list)  # Paths that are certainly not data.


def find_tree(inputs: Sequence[str], stray: re.Pattern[str], what: str) -> Tree:
    """Finds the files of folders (recursively), globs and named files.

    Names are relative to an input folder, or to the part of a glob before its first folder with a
    wildcard. `stray` matches names that are not data, unless an input itself has such a name.
    """
    tree = Tree()
    known: set[str] = set()
    for one in map(os.fspath, inputs):
        found = _remote(one, tree, stray) if remote.is_remote(one) else _local(one, tree, stray)
        for file in found:
            place = identity(file.path)
            if place not in known:
                known.add(place)
                tree.files.append(file)
    if not tree.files and not tree.refused:
        raise DataError(f"{', '.join(map(str, inputs))}: no {what}; expected at least one")
    tree.files.sort(key=lambda found: (found.name, found.path))
    tree.ignored.sort()
    return tree


def _remote(one: str, tree: Tree, stray: re.Pattern[str]) -> Iterator[FoundFile]:
    one = remote.normal_address(one)
    files, is_one = remote.find_files(one)
    if is_one:
        yield FoundFile(files[0], os.path.basename(files[0]))
        return
    root = _fixed_part(one) if remote.has_glob(one) else one.rstrip("/")
    for file in remote.find_matches(one) if remote.has_glob(one) else remote.find_below(root):
        name = file[len(root) :].lstrip("/")
        if any(map(stray.search, name.split("/"))):
            tree.ignored.append(file)
        else:
            yield FoundFile(file, name)


def _local(one: str, tree: Tree, stray: re.Pattern[str]) -> Iterator[FoundFile]:
    recover(one)
    if os.path.isdir(one):
        yield from _Folder(one, tree, stray).walk(one)
    elif os.path.isfile(one):
        yield FoundFile(one, os.path.basename(one))
    elif glob.has_magic(one):
        yield from _Folder(_fixed_part(one), tree, stray).match(one)
    else:
        raise DataError(f"{one}: no such file or folder")


def _fixed_part(pattern: str) -> str:
    parts = pattern.split("/")
    first = next(at for at, part in enumerate(parts) if glob.has_magic(part))
    return "/".join(parts[:first]) or ("/" if first else "")


class _Folder:
    """An input folder; no file outside it is read."""

    def __init__(self, root: str, tree: Tree, stray: re.Pattern[str]) -> None:
        self._is_stray = stray.search
        self._root = root
        self._real_root = os.path.realpath(root)
        self._tree = tree
        self._below: dict[str, bool] = {}

    def match(self, pattern: str) -> Iterator[FoundFile]:
        walked: set[str] = set()
        for path in (one.rstrip("/") for one in sorted(glob.iglob(pattern, recursive=True))):
            parent, name = os.path.split(path)
            if path == self._root.rstrip("/"):
                walked.add(path)
                yield from self.walk(path)
            elif parent in walked:  # `**` also matches the entries of a folder that it matches.
                if os.path.isdir(path):
                    walked.add(path)
            elif not self._is_below(parent):
                self._tree.refused[path] = (
                    f"is not below {self._root or '.'}, or only through a link"
                )
            elif os.path.isdir(path) and not os.path.islink(path) and not self._is_stray(name):
                walked.add(path)
                yield from self.walk(path)
            else:
                yield from self._entry(path, name, is_link=os.path.islink(path))

    def walk(self, folder: str) -> Iterator[FoundFile]:
        pending = [folder]
        while pending:
            for entry in _entries(pending.pop()):
                if entry.is_dir(follow_symlinks=False):
                    if self._is_stray(entry.name):
                        self._tree.ignored.append(entry.path)
                    else:
                        pending.append(entry.path)
                else:
                    yield from self._entry(entry.path, entry.name, is_link=entry.is_symlink())

    def _entry(self, path: str, name: str, *, is_link: bool) -> Iterator[FoundFile]:
        if self._is_stray(name):
            self._tree.ignored.append(path)
        elif reason := self._refusal(path, is_link=is_link):
            self._tree.refused[path] = reason
        else:
            yield FoundFile(path, path[len(self._root) :].lstrip("/"))

    def _refusal(self, path: str, *, is_link: bool) -> str | None:
        if is_link:
            target = os.path.realpath(path)
            if not os.path.exists(target):
                return f"is a link to {target}, which is not there"
            if os.path.isdir(target):
                return f"is a link to the folder {target}; links to folders are not followed"
            if not self._is_inside(path):
                return f"is a link to {target}, outside {self._root or '.'}; copy the file"
        return None if os.path.isfile(path) else "is neither a file nor a folder"

    def _is_inside(self, path: str) -> bool:
        return os.path.commonpath([os.path.realpath(path), self._real_root]) == self._real_root

    def _is_below(self, folder: str) -> bool:
        """Returns whether a folder that a glob found is in the root, reached without a link."""
        if folder not in self._below:
            relative = folder[len(self._root) :].lstrip("/")
            direct = os.path.normpath(os.path.join(self._real_root, relative))
            self._below[folder] = direct == os.path.realpath(folder) and self._is_inside(folder)
        return self._below[folder]


def _entries(folder: str) -> list[os.DirEntry]:
    try:
        return retry_local(folder, lambda: _sorted_entries(folder))
    except OSError as error:
        raise DataError(f"cannot be listed: {one_line(error)}") from error


def _sorted_entries(folder: str) -> list[os.DirEntry]:
    with os.scandir(folder) as entries:
        return sorted(entries, key=lambda entry: entry.name)
