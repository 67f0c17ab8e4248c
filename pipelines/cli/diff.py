"""`penstock diff`: compares two data sets column by column."""

import glob
import os
from collections.abc import Collection
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated

import typer

from penstock.components.errors import DataError, PenstockError, UsageError
from penstock.components.files.remote import find_below, has_glob, is_remote
from penstock.components.plain import from_plain
from penstock.components.sources.options import Table
from penstock.pipelines.cli.option_flags import (
    Root,
    SourceOptions,
    errors_in_flags,
    source_flags,
    source_option,
)
from penstock.pipelines.terminal.progress import watched_rows
from penstock.pipelines.terminal.tables import console, print_table

if TYPE_CHECKING:
    from penstock.components.doctor.diff import ColumnDiff, DataDiff
    from penstock.components.sources.options import KindOptions

_SIDE_HELP = (
    "A folder of shards or of stored statistics, or one split of it, a run's folder or id, or data "
    "as for ingest."
)
_MOST_VALUES = 3


def command(
    a: Annotated[str, typer.Argument(metavar="A", help=_SIDE_HELP)],
    b: Annotated[str, typer.Argument(metavar="B", help="The same; compared with A.")],
    limit: Annotated[
        float, typer.Option(min=0, max=1, help="Distance above which a column differs.")
    ] = 0.2,
    ignore: Annotated[
        list[str] | None,
        typer.Option(metavar="COLUMN", help="Column to leave out, such as an id; repeatable."),
    ] = None,
    source: SourceOptions = None,
    workers: Annotated[int, typer.Option(min=1, help="Number of processes.")] = 1,
    root: Root = "runs",
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Compare two data sets: schema, rows, missing values, distance and new values by column.

    A distance is 0 for equal values and 1 for nothing in common, as in gate.max_drift; a column
    that exists on one side only gets distance 1. For columns of numbers, noise alone gives
    distances of up to 0.1. A run stands for the rows that it read or, if they are gone, for its
    statistics of the split train. Exit 0 if no column differs by more than the limit, 1 otherwise.

    Example: penstock diff shards/Split-train trips-of-june.csv --limit 0.3
    """
    with errors_in_flags({**source_flags(Table), "ignore": "--ignore"}), watched_rows():
        options = dict(source_option(text, Table) for text in source or ())
        table = from_plain(Table, options) if options else None
        found = diff(
            *(a, b), limit=limit, ignore=ignore or (), source=table, workers=workers, root=root
        )
    if as_json:
        typer.echo(found.to_json())
    else:
        _show(found)
    found.raise_different()


def diff(
    a: str | os.PathLike[str],
    b: str | os.PathLike[str],
    *,
    limit: float = 0.2,
    ignore: Collection[str] = (),
    source: "KindOptions | None" = None,
    workers: int = 1,
    root: str = "runs",
) -> "DataDiff":
    """Compares two data sets column by column, with the distances of the ValidationGate.

    Args:
        a: A folder of shards or of stored statistics, a split of either, a run's folder or id, or
            data as for `ingest`.
        b: Data in the same forms, to compare with `a`.
        limit: Distance above which a column differs, 0..1.
        ignore: Columns to leave out, such as ids.
        source: Options for reading data that is not in shards.
        workers: Number of processes on this machine.
        root: Folder or mysql:// address in which runs are searched for by id.

    Returns:
        Numbers of rows; and for each column, its type, missing values, distance and new values.
        `different` contains the columns whose distance is above the limit.

    Raises:
        DataError: Data cannot be read or has no rows.
        UsageError: `a` or `b` is neither data nor a run, or `limit` is not within 0..1.
    """
    from penstock.components.doctor.diff import diff as diff_data

    names = os.fspath(a), os.fspath(b)
    places = [_data_of(place, root) for place in names]
    found = diff_data(*places, limit=limit, ignore=ignore, source=source, workers=workers)
    return replace(found, names=names)


def _data_of(place: str, root: str) -> str:
    """Returns the folder of Examples or statistics for a run; returns other places unchanged."""
    from penstock.pipelines.runs.metadata_store import is_address
    from penstock.pipelines.runs.stores import is_run, locate

    if not is_address(place) and (
        (os.path.exists(place) and not is_run(place))
        or is_remote(place)
        or (has_glob(place) and glob.glob(place, recursive=True))
    ):
        return place
    try:
        run = locate(place, root).run
    except PenstockError as error:
        raise UsageError(f"{place}: no such data, and no such run ({error})") from error
    for uri in filter(None, map(run.uri, ("Examples", "ExampleStatistics"))):
        if find_below(uri) if is_remote(uri) else os.path.isdir(uri):
            return uri
    raise DataError(f"{place}: run {run.run_id} has neither Examples nor statistics any more")


def _show(found: "DataDiff") -> None:
    (a, b), rows = found.names, found.rows
    title = f"A {a}: {rows[0]:,} rows\nB {b}: {rows[1]:,} rows"
    headers = ("column", "distance", "type", "missing", "new in B")
    print_table(console(), title, headers, [_line(one, found.limit) for one in found.columns])


def _line(one: "ColumnDiff", limit: float) -> tuple[str, ...]:
    shares = ["-" if share is None else f"{share:.1%}" for share in one.missing]
    more = ", ..." if len(one.new) > _MOST_VALUES else ""
    return (
        one.column,
        f"{one.distance:.2f}{' !' if one.distance > limit else ''}",
        _both([kind or "-" for kind in one.kinds]),
        _both(shares),
        ", ".join(one.new[:_MOST_VALUES]) + more,
    )


def _both(sides: list[str]) -> str:
    return sides[0] if sides[0] == sides[1] else " -> ".join(sides)
