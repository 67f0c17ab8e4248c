"""The work of `penstock validate`: look, keep what was found, report."""

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console
from rich.table import Table

from penstock.components.errors import UsageError
from penstock.components.gates.checks import GateOptions
from penstock.components.sources.schema import read_schema_text
from penstock.components.tfrecord.manifest import RowAccount
from penstock.pipelines.terminal.interrupts import whole_or_nothing
from penstock.pipelines.terminal.noise import noise_to_log
from penstock.pipelines.validation.examples_folder import find_manifest, find_shards

if TYPE_CHECKING:
    from penstock.pipelines.validation.validate import Validation


def run_validate(
    folder: Path,
    options: GateOptions,
    *,
    schema_file: Path | None,
    out: Path | None,
    workers: int,
    as_json: bool,
) -> None:
    """Validate an Examples folder.

    Raises:
        DataError: The data is unfit, or cannot be read.
        UsageError: `out` exists.
    """
    if out is not None and out.exists():
        raise UsageError(f"{out} exists already; name a new folder")
    # TensorFlow takes seconds to import, which is long to learn of a name mistyped.
    manifest = find_manifest(folder)
    find_shards(folder, manifest)
    text = read_schema_text(str(schema_file)) if schema_file else None
    with whole_or_nothing(), noise_to_log() as noise:
        console = Console(file=noise.screen, highlight=False, soft_wrap=True)
        # TensorFlow, TFX and Beam take seconds to import, and talk while they do.
        from penstock.pipelines.validation.validate import keep_validation, validate_examples

        validation = validate_examples(
            folder, options, schema_text=text, workers=workers, tell=console.print
        )
        if out is not None:
            keep_validation(validation, out)
    account = manifest.account if manifest else None
    if as_json:
        sys.stdout.write(_json(validation, account))
    else:
        _report(validation, account, out)
    validation.raise_problems()


def _json(validation: "Validation", account: RowAccount | None) -> str:
    found = {
        "rows": validation.rows,
        "features": len(validation.schema.feature),
        "schema": "inferred" if validation.is_inferred else "given",
        "quarantined_share": account.quarantined_share if account else None,
        "problems": list(validation.problems),
    }
    return json.dumps(found, indent=1) + "\n"


def _report(validation: "Validation", account: RowAccount | None, out: Path | None) -> None:
    console = Console(highlight=False, soft_wrap=True)
    table = Table("split", "rows", "anomalies", box=None)
    for split, rows in validation.rows.items():
        found = validation.anomalies.get(split)
        table.add_row(split, f"{rows:,}", str(len(found.anomaly_info)) if found else "-")
    console.print(table)
    schema = "inferred from these rows" if validation.is_inferred else "given"
    console.print(f"schema of {len(validation.schema.feature)} features, {schema}")
    if account is not None and account.quarantined:
        console.print(
            f"{account.quarantined:,} of {account.read - account.blank:,} rows were quarantined "
            f"({account.quarantined_share:.2%})"
        )
    if out is not None:
        console.print(f"kept: {out}")
    if not validation.problems:
        console.print("fit to train on")
