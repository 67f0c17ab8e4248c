"""The work of `penstock init`: look, write, and say what was decided."""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from shlex import quote

from rich.console import Console

from penstock.components.errors import counted
from penstock.components.files.commit import check_target
from penstock.components.files.remote import is_remote
from penstock.pipelines.blocks.target import Target
from penstock.pipelines.starter.look import ImagesLook, TableLook, look_at
from penstock.pipelines.starter.write import package_name, write_starter
from penstock.pipelines.terminal.tables import as_html, console

_SHOWN_CLASSES, _SHOWN_COLUMNS = 8, 20


@dataclass(frozen=True)
class Starter:
    """The package of a pipeline that was written, and what was decided on the way.

    Attributes:
        folder: The folder that `penstock run` is called in.
        package: Name of the Python package in it.
        files: What was written, relative to `folder`.
        look: What the data is like.
    """

    folder: Path
    package: str
    files: Sequence[Path]
    look: TableLook | ImagesLook

    def _repr_html_(self) -> str:
        return as_html(lambda out: show_starter(self, out))


def run_init(
    folder: Path, data: str, targets: Sequence[str], labels_file: str | None = None
) -> Starter:
    """Write the package of a pipeline; the arguments are those of the command.

    Raises:
        DataError: There is nothing to learn from; says why.
        UsageError: The folder is there, its name is taken, or a target is not a column.
    """
    check_target(folder, overwrite=None)
    package = package_name(folder)
    place = data if is_remote(data) else os.path.abspath(data)
    look = look_at(place, targets, os.path.abspath(labels_file) if labels_file else None)
    return Starter(folder, package, write_starter(folder, look, place, package=package), look)


def show_starter(starter: Starter, out: Console | None = None) -> None:
    """Print what was decided, by default on stdout."""
    out = out or console()
    look, folder, package = starter.look, starter.folder, starter.package
    if isinstance(look, ImagesLook):
        by = look.labels_file or "a folder a class"
        out.print(f"data        {look.rows:,} images, {by}")
        out.print(f"target      {_classes(tuple(look.classes))}")
        out.print(
            f"input       {look.side} x {look.side} pixels, {counted(look.channels, 'channel')}"
        )
    else:
        roles = look.roles
        out.print(f"data        {look.rows:,} rows of {len(look.columns)} columns, {look.kind}")
        for target in roles.targets:
            out.print(f"target      {target.name}: {_task(target)}")
        groups = {
            "numbers": roles.numbers,
            "booleans": roles.booleans,
            "dates": list(roles.dates),
            "categories": list(roles.categories),
        }
        for name, columns in groups.items():
            if columns:
                out.print(f"{name:<12}{_shown(columns)}")
        for name, reason in roles.left_out.items():
            out.print(f"left out    {name}: {reason}")
    lines = sum(
        len((folder / file).read_text(encoding="utf-8").splitlines())
        for file in starter.files
        if file.parent == Path(package) and file.suffix == ".py"
    )
    out.print(f"wrote       {folder}/{package}: {lines} lines, yours to change")
    out.print(f"next        cd {quote(str(folder))} && penstock run")


def _task(target: Target) -> str:
    return "a quantity" if target.task == "regression" else _classes(target.classes)


def _classes(classes: Sequence[str]) -> str:
    return f"{len(classes)} classes ({_shown(classes, _SHOWN_CLASSES)})"


def _shown(names: Sequence[str], most: int = _SHOWN_COLUMNS) -> str:
    more = f", and {len(names) - most:,} more" if len(names) > most else ""
    return f"{', '.join(names[:most])}{more}"
