"""`penstock init`: writes the package of a pipeline for the user's own data."""

import typing
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer


def command(
    name: Annotated[Path, typer.Argument(help="Folder to make; its name is the pipeline's.")],
    data: Annotated[
        str, typer.Option(help="The table: a file, a glob or a folder; or a folder of images.")
    ],
    target: Annotated[
        list[str] | None,
        typer.Option(help="Column to predict; repeatable. Not for one folder per class."),
    ] = None,
    labels: Annotated[
        str | None, typer.Option(help="Label file of the images; else the one beside them.")
    ] = None,
    drop: Annotated[
        list[str] | None, typer.Option(help="Column that the model does not get; repeatable.")
    ] = None,
    role: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=ROLE",
            help="Role of a column: number, boolean, date, category, text or drop; repeatable.",
        ),
    ] = None,
    group: Annotated[
        str | None,
        typer.Option(help="Column whose rows stay in one split, such as a patient's id."),
    ] = None,
    time: Annotated[
        str | None,
        typer.Option(help="Column of times that divides the rows: the latest third is evaluated."),
    ] = None,
    source: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=VALUE",
            help="Option of reading the data, such as delimiter=;, as of penstock ingest; "
            "repeatable.",
        ),
    ] = None,
) -> None:
    """Look at data and write a small package that trains on it.

    Works out from the data which columns are numbers, dates, categories or ids,
    and whether the target is a class or a quantity. What was decided is in NAME/*/features.py.

    Example: penstock init churn --data customers.csv --target churned
    """
    from penstock.pipelines.cli.option_flags import errors_in_flags
    from penstock.pipelines.cli.work.init import INIT_FLAGS, run_init, show_starter
    from penstock.pipelines.starter.options import StarterOptions

    with errors_in_flags(INIT_FLAGS):
        options = StarterOptions(
            targets=tuple(target or ()),
            labels_file=labels,
            drop=tuple(drop or ()),
            roles=dict(_pairs("--role", role or ())),
            group=group,
            time=time,
            source={n: _source_value(n, value) for n, value in _pairs("--source", source or ())},
        )
        show_starter(run_init(name, data, options))


def _pairs(flag: str, texts: Sequence[str]) -> list[tuple[str, str]]:
    from penstock.components.errors import UsageError

    for text in texts:
        if not text.partition("=")[0] or "=" not in text:
            raise UsageError(f"{flag} takes NAME=VALUE, got {text!r}")
    return [(text.partition("=")[0], text.partition("=")[2]) for text in texts]


def _source_value(name: str, text: str) -> Any:
    """Returns the value of an option of the data: a text as it stands, anything else as YAML."""
    from penstock.components.sources.images.options import Images
    from penstock.components.sources.options import Table
    from penstock.pipelines.config.overrides import load_overrides

    hints = {**typing.get_type_hints(Images), **typing.get_type_hints(Table)}
    if hints.get(name, str) in (str, str | None):
        return text
    return load_overrides(None, [f"{name}={text}"])[name]
