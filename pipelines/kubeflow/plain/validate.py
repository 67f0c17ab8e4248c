"""The plain component `validate`: a Dataset of shards in; its statistics, a schema, a page out."""

import shutil
import tempfile
from pathlib import Path

from penstock.components.errors import UsageError
from penstock.components.gates.checks import GateOptions
from penstock.pipelines.config.overrides import from_mapping
from penstock.pipelines.kubeflow.executor import ExecutorInput
from penstock.pipelines.kubeflow.plain.parameters import ValidateParameters
from penstock.pipelines.validation.validate import (
    PAGE_FILE,
    SCHEMA_FILE,
    Validation,
    keep_validation,
    validate_examples,
)


def run(task: ExecutorInput) -> None:
    """Validate `examples`; with `stop_if_unfit` the task fails where it is unfit.

    Raises:
        DataError: The data is unfit, or cannot be read.
        UsageError: A parameter does not fit.
    """
    given = from_mapping(ValidateParameters, task.parameters)
    examples = task.input_path("examples")
    if examples is None:
        raise UsageError("give the artifact examples")
    validation = validate_examples(
        examples,
        GateOptions(given.label, given.max_quarantined_share),
        schema_text=given.schema or None,
        workers=given.workers,
        tell=print,
    )
    _give(task, validation)
    if given.stop_if_unfit:
        validation.raise_problems()
    for problem in validation.problems:
        print(problem)


def _give(task: ExecutorInput, validation: Validation) -> None:
    with tempfile.TemporaryDirectory() as folder:
        kept = Path(folder, "validation")
        keep_validation(validation, kept)
        for name, file in (("schema_used", SCHEMA_FILE), ("report", PAGE_FILE)):
            shutil.move(kept / file, task.output_path(name))
        statistics = task.output_path("statistics")
        shutil.rmtree(statistics, ignore_errors=True)  # what an earlier try of this task left
        shutil.move(kept, statistics)
    task.write_parameter("fit", "false" if validation.problems else "true")
    rows = {f"rows_{split}": rows for split, rows in validation.rows.items()}
    task.write_metrics("metrics", {**rows, "problems": len(validation.problems)})
