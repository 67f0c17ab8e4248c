"""Which image files a user means, all of them below the folder that he named.

Files that are surely no images (hidden ones, READMEs, text, tables, label files) are left out
and reported; every other file counts, and is rejected later if it is no image after all.
Links are followed to files below the same folder only.
"""

import glob
import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from penstock.components.errors import DataError, UsageError, one_line

# A leading `_` is no sign: cameras write _DSC0001.JPG.
_STRAY = re.compile(
    r"^\.|^_SUCCESS$|^__MACOSX$|^readme\b|^licen[cs]e\b|^thumbs\.db$|~$|\.(txt|[ct]sv|jsonl?|xml"
    r"|ya?ml|md|html?|mat|np[yz]|h5|hdf5|pbtxt|parquet|pkl|pth?|ini|db|crc|log|py|sh|ipynb)$",
    re.IGNORECASE,
)


@dataclass(frozen=True)
class FoundImage:
    """A file that is taken for an image.

    Attributes:
        path: Where it is.
        name: Its path below the folder that the user named, with `/`.
    """

    path: str
    name: str

    @property
    def folder(self) -> str | None:
        """The folder right below the one that the user named; None where it lies in that."""
        first, slash, _ = self.name.partition("/")
        return first if slash else None


@dataclass
class Tree:
    """What lies below the inputs.

    Attributes:
        images: In the order of their names.
        refused: Path and reason of what is not read: links out of the folder, links to folders,
            devices.
        ignored: Files and folders that are surely no images.
    """

    images: list[FoundImage] = field(default_factory=list)
    refused: dict[str, str] = field(default_factory=dict)
    ignored: list[str] = field(default_factory=list)


def find_images(inputs: Sequence[str]) -> Tree:
    """Find the files of folders (recursively), globs and named files.

    Args:
        inputs: Paths. Names are relative to a folder that is named, or to what a glob begins
            with before its first folder with `*`, `?` or `[`.

    Raises:
        DataError: An input is not there, or there is no image in any.
        UsageError: An input is an address.
    """
    tree = Tree()
    known: set[str] = set()
    for one in inputs:
        for found in _find(os.fspath(one), tree):
            place = os.path.abspath(found.path)
            if place not in known:
                known.add(place)
                tree.images.append(found)
    if not tree.images and not tree.refused:
        raise DataError(f"{', '.join(map(str, inputs))}: no image file; expected at least one")
    tree.images.sort(key=lambda found: (found.name, found.path))
    tree.ignored.sort()
    return tree


def _find(one: str, tree: Tree) -> Iterator[FoundImage]:
    if "://" in one:
        raise UsageError(f"{one}: images are read from paths; mount the bucket and name the path")
    if os.path.isdir(one):
        yield from _Folder(one, tree).walk(one)
    elif os.path.isfile(one):
        yield FoundImage(one, os.path.basename(one))
    elif glob.has_magic(one):
        yield from _Folder(_fixed_part(one), tree).match(one)
    else:
        raise DataError(f"{one}: no such file or folder")


def _fixed_part(pattern: str) -> str:
    parts = pattern.split("/")
    first = next(at for at, part in enumerate(parts) if glob.has_magic(part))
    return "/".join(parts[:first]) or ("/" if first else "")


class _Folder:
    """The folder that the user named; nothing outside it is read."""

    def __init__(self, root: str, tree: Tree) -> None:
        self._root = root
        self._real_root = os.path.realpath(root)
        self._tree = tree
        self._below: dict[str, bool] = {}

    def match(self, pattern: str) -> Iterator[FoundImage]:
        """What a glob gives: files, and folders with all that is in them."""
        walked: set[str] = set()
        for path in (one.rstrip("/") for one in sorted(glob.iglob(pattern, recursive=True))):
            parent, name = os.path.split(path)
            if path == self._root.rstrip("/"):
                walked.add(path)
                yield from self.walk(path)
            elif parent in walked:  # `**` gives also what is in a folder that it gives
                if os.path.isdir(path):
                    walked.add(path)
            elif not self._is_below(parent):
                self._tree.refused[path] = (
                    f"is not below {self._root or '.'}, or only through a link"
                )
            elif os.path.isdir(path) and not os.path.islink(path) and not _STRAY.search(name):
                walked.add(path)
                yield from self.walk(path)
            else:
                yield from self._entry(path, name, is_link=os.path.islink(path))

    def walk(self, folder: str) -> Iterator[FoundImage]:
        """All files of a folder and of those below it."""
        pending = [folder]
        while pending:
            for entry in _entries(pending.pop()):
                if entry.is_dir(follow_symlinks=False):
                    if _STRAY.search(entry.name):
                        self._tree.ignored.append(entry.path)
                    else:
                        pending.append(entry.path)
                else:
                    yield from self._entry(entry.path, entry.name, is_link=entry.is_symlink())

    def _entry(self, path: str, name: str, *, is_link: bool) -> Iterator[FoundImage]:
        if _STRAY.search(name):
            self._tree.ignored.append(path)
        elif reason := self._refusal(path, is_link=is_link):
            self._tree.refused[path] = reason
        else:
            yield FoundImage(path, path[len(self._root) :].lstrip("/"))

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
        """Whether a folder that a glob gave is in the root, and no link led to it."""
        if folder not in self._below:
            relative = folder[len(self._root) :].lstrip("/")
            direct = os.path.normpath(os.path.join(self._real_root, relative))
            self._below[folder] = direct == os.path.realpath(folder) and self._is_inside(folder)
        return self._below[folder]


def _entries(folder: str) -> list[os.DirEntry]:
    try:
        with os.scandir(folder) as entries:
            return sorted(entries, key=lambda entry: entry.name)
    except OSError as error:
        raise DataError(f"cannot be listed: {one_line(error)}") from error
