"""`penstock predict`: rows or images through a pushed model."""

import glob
import os
import time
from pathlib import Path
from typing import Annotated

import typer

from penstock.components.errors import DataError
from penstock.components.files.commit import check_file
from penstock.components.files.remote import is_remote
from penstock.components.plain import from_plain
from penstock.components.sources.options import Table
from penstock.pipelines.cli.option_flags import (
    Overwrite,
    SourceOptions,
    errors_in_flags,
    source_flags,
    source_option,
)


def command(
    model: Annotated[
        str,
        typer.Argument(help="A pushed model, its folder of versions, or the root of the runs."),
    ],
    data: Annotated[
        str, typer.Argument(help="The table: a file, a glob or a folder; or a folder of images.")
    ],
    out: Annotated[Path, typer.Option(help="Parquet file to make.")] = Path("predictions.parquet"),
    overwrite: Overwrite = False,
    source: SourceOptions = None,
) -> None:
    """Predict every row of a table, or every image.

    Rows are read with the checks of an ingest: a column of the model that is missing, or a value
    that does not fit it, stops with one line. The file has the rows and, for each, `prediction`;
    of classes as text, with its `probability` and the `probabilities` of all by name.

    Example: penstock predict runs customers.csv --out predictions.parquet
    """
    for place in (model, data):
        require_place(place)
    check_file(out, overwrite=overwrite)
    with errors_in_flags(source_flags(Table)):
        options = dict(source_option(text, Table) for text in source or ())
        table = from_plain(Table, {"non_finite": "null", **options}) if options else None
    # TensorFlow takes seconds to import: what is wrong with the words of the command shows before.
    from penstock.pipelines.prediction.predict import predict
    from penstock.pipelines.terminal.tables import console
    from penstock.pipelines.terminal.work_progress import work_progress

    started = time.perf_counter()
    with errors_in_flags(source_flags(Table)), work_progress("{:,} rows".format) as on_rows:
        rows = predict(model, data, out, source=table, overwrite=overwrite, on_rows=on_rows)
    seconds = time.perf_counter() - started
    console().print(f"{rows:,} rows predicted in {seconds:.1f} s: {out}")


def require_place(place: str) -> None:
    """Raises a DataError for a path or pattern of this machine at which there is nothing."""
    if not is_remote(place) and not os.path.exists(place) and not glob.glob(place, recursive=True):
        raise DataError(f"{place}: no such file or folder")
