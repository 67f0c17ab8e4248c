"""`penstock init`: writes the package of a pipeline for the user's own data."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Annotated, Any

import typer

from penstock.components.errors import counted
from penstock.components.files.commit import check_target
from penstock.components.files.remote import is_remote
from penstock.components.sources.images.options import Images
from penstock.components.sources.options import Table
from penstock.pipelines.cli.option_flags import (
    SourceOptions,
    errors_in_flags,
    flag_names,
    given,
    source_flags,
    source_option,
    with_flags,
)
from penstock.pipelines.config.overrides import name_and_value
from penstock.pipelines.starter.options import ROLES, StarterOptions
from penstock.pipelines.terminal.tables import as_html, console

if TYPE_CHECKING:
    from rich.console import Console

    from penstock.pipelines.blocks.target import Target
    from penstock.pipelines.starter.look import ImagesLook, TableLook

_SHOWN_CLASSES, _SHOWN_COLUMNS = 8, 20
# Flags of the command, by the option names in messages.
INIT_FLAGS = {
    **source_flags(Table),
    **source_flags(Images),
    **flag_names(StarterOptions),
    **{"label_column": "--target", "text_column": "--target"},
}


def _init(
    name: Annotated[Path, typer.Argument(help="Folder to make; its name is the pipeline's.")],
    data: Annotated[
        str, typer.Option(help="The table: a file, a glob or a folder; or a folder of images.")
    ],
    *,
    role: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME=ROLE", help=f"Role of a column: {', '.join(ROLES)}."),
    ] = None,
    source: SourceOptions = None,
    **more: Any,
) -> None:
    """Look at data and write a small package that trains on it.

    Works out from the data which columns are numbers, dates, categories or ids, and whether the
    target is a class or a quantity. NAME/*/features.py contains these decisions.

    Example: penstock init churn --data customers.csv --target churned
    """
    with errors_in_flags(INIT_FLAGS):
        options = StarterOptions(
            **given(more),
            roles=dict(name_and_value("--role", text) for text in role or ()),
            source=dict(source_option(text, Images, Table) for text in source or ()),
        )
        show_starter(run_init(name, data, options))


command = with_flags(_init, StarterOptions, panel="Options", but=("roles", "source"))


@dataclass(frozen=True)
class Starter:
    """A package that `penstock init` wrote, and the properties of its data.

    Attributes:
        files: Written files, relative to `folder`.
    """

    folder: Path
    package: str
    files: Sequence[Path] = field(repr=False)
    look: "TableLook | ImagesLook" = field(repr=False)

    def _repr_html_(self) -> str:
        return as_html(lambda out: show_starter(self, out))


def init(
    folder: str | os.PathLike[str],
    data: str,
    *,
    target: str | Sequence[str] = (),
    labels: str | os.PathLike[str] | None = None,
    drop: Sequence[str] = (),
    roles: Mapping[str, str] | None = None,
    group: str | None = None,
    time: str | None = None,
    source: Mapping[str, Any] | None = None,
) -> Starter:
    """Looks at data and writes a small package that trains on it.

    Args:
        folder: Folder to create; its name becomes the pipeline's name.
        data: A table, as a file, a glob or a folder; or a folder of images.
        target: Column to predict, or several; empty for images with one folder per class.
        labels: Label file of the images; by default it is searched for in and above their folder.
        drop: Columns that the model does not get.
        roles: Roles of columns by name: `number`, `boolean`, `date`, `category`, `text` or `drop`.
        group: Column whose equal values stay in one split, such as a patient's id.
        time: Column of times that divides the rows: the latest third is evaluated.
        source: Options by name for reading the data, such as `{"delimiter": ";"}`.

    Returns:
        The written package and the properties of the data.

    Raises:
        DataError: The data has nothing to learn from; the message gives the reason.
        UsageError: The folder exists, its name cannot be the name of a new Python package, or an
            option does not fit the data.
    """
    options = StarterOptions(
        targets=(target,) if isinstance(target, str) else tuple(target),
        labels_file=os.fspath(labels) if labels else None,
        drop=tuple(drop),
        roles=roles or {},
        group=group,
        time=time,
        source=source or {},
    )
    return run_init(Path(folder), data, options)


def run_init(folder: Path, data: str, options: StarterOptions) -> Starter:
    from penstock.pipelines.starter.look import look_at
    from penstock.pipelines.starter.write import package_name, write_starter

    check_target(folder, overwrite=None)
    package = package_name(folder)
    place = data if is_remote(data) else os.path.abspath(data)
    if options.labels_file:
        options = replace(options, labels_file=os.path.abspath(options.labels_file))
    look = look_at(place, options)
    files = write_starter(folder, look, place, options, package=package)
    return Starter(folder, package, files, look)


def show_starter(starter: Starter, out: "Console | None" = None) -> None:
    from penstock.pipelines.starter.look import ImagesLook

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
            "texts": list(roles.texts),
        }
        for name, columns in groups.items():
            if columns:
                out.print(f"{name:<12}{_shown(columns)}")
        for name, reason in roles.left_out.items():
            out.print(f"left out    {name}: {reason}")
        for name, rows in look.gaps.items():
            out.print(f"no target   {name}: {rows:,} of {look.columns[0].rows:,} rows, left out")
        for leak in look.leaks:
            remedy = f" by --{leak.remedy} {quote(leak.column)}" if leak.remedy else ""
            out.print(f"leakage     {leak.text}{remedy}")
    lines = sum(
        len((folder / file).read_text(encoding="utf-8").splitlines())
        for file in starter.files
        if file.parent == Path(package) and file.suffix == ".py"
    )
    out.print(f"wrote       {folder}/{package}: {lines} lines, yours to change")
    out.print(f"next        cd {quote(str(folder))} && penstock run")


def _task(target: "Target") -> str:
    return "a quantity" if target.task == "regression" else _classes(target.classes)


def _classes(classes: Sequence[str]) -> str:
    return f"{len(classes)} classes ({_shown(classes, _SHOWN_CLASSES)})"


def _shown(names: Sequence[str], most: int = _SHOWN_COLUMNS) -> str:
    more = f", and {len(names) - most:,} more" if len(names) > most else ""
    return f"{', '.join(names[:most])}{more}"
