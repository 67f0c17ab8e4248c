"""The work of `penstock predict`: predict with progress, and say what came of it."""

import time
from pathlib import Path

from penstock.pipelines.prediction.predict import predict
from penstock.pipelines.terminal.tables import console
from penstock.pipelines.terminal.work_progress import work_progress


def run_predict(model: str, data: str, out: Path) -> None:
    """Write the predictions; the arguments are those of the command.

    Raises:
        DataError: A row does not fit the model, or there is no model.
        UsageError: The model has no signature for it, or `out` is a folder.
    """
    started = time.perf_counter()
    with work_progress("{:,} rows".format) as on_rows:
        rows = predict(model, data, out, on_rows=on_rows)
    seconds = time.perf_counter() - started
    console().print(f"{rows:,} rows predicted in {seconds:.1f} s: {out}")
