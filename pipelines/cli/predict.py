"""`penstock predict`: runs a pushed model on rows or images."""

import glob
import json
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
        typer.Argument(help="A pushed model, a folder of model versions, or the root of the runs."),
    ],
    data: Annotated[
        str, typer.Argument(help="The table: a file, a glob or a folder; or a folder of images.")
    ],
    out: Annotated[Path, typer.Option(help="File to make: .parquet, or .csv.")] = Path(
        "predictions.parquet"
    ),
    explain: Annotated[
        bool, typer.Option("--explain", help="Add the columns that moved each prediction.")
    ] = False,
    overwrite: Overwrite = False,
    source: SourceOptions = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the number of rows.")] = False,
) -> None:
    """Predict every row of a table, or every image.

    Rows are checked as in an ingest: if a column that the model needs is missing, or a value has
    the wrong type, the command stops with an error of one line. The file has each row with its
    `prediction`; if that is a class, also its `probability` and the `probabilities` of all classes
    by name. With --explain, `because` names up to three columns that changed the prediction most.
    The effect of a value is measured against a typical one: the median, or the most frequent text,
    of the first 4,096 rows.

    Example: penstock predict runs customers.csv --out predictions.parquet
    """
    for place in (model, data):
        require_place(place)
    check_file(out, overwrite=overwrite)
    with errors_in_flags(source_flags(Table)):
        options = dict(source_option(text, Table) for text in source or ())
        table = from_plain(Table, {"non_finite": "null", **options}) if options else None
    # TensorFlow takes seconds to import, so wrong arguments are reported before that.
    from penstock.pipelines.prediction.predict import predict
    from penstock.pipelines.terminal.progress import work_progress
    from penstock.pipelines.terminal.tables import console

    started = time.perf_counter()
    with errors_in_flags(source_flags(Table)), work_progress("{:,} rows".format) as on_rows:
        rows = predict(
            *(model, data, out),
            source=table,
            explain=explain,
            overwrite=overwrite,
            on_rows=on_rows,
        )
    if as_json:
        typer.echo(json.dumps({"rows": rows, "file": str(out)}))
        return
    seconds = time.perf_counter() - started
    console().print(f"{rows:,} rows predicted in {seconds:.1f} s: {out}")


def require_place(place: str) -> None:
    """Raises a DataError if a local path or pattern matches no file or folder."""
    if not is_remote(place) and not os.path.exists(place) and not glob.glob(place, recursive=True):
        raise DataError(f"{place}: no such file or folder")
