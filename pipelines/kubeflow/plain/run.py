"""Runs the plain components.

In: KFP's executor input of a task. Out: its files and metrics. Slow modules are imported when a
component runs. Each replaces the output of an earlier attempt.
"""

import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from penstock.components.errors import UsageError
from penstock.components.plain import from_plain
from penstock.pipelines.kubeflow.executor import ExecutorInput


def run_component(name: str, executor_input: str) -> None:
    """Run a component on KFP's executor input."""
    if name not in COMPONENTS:
        raise UsageError(f"no component {name!r}; choices: {', '.join(COMPONENTS)}")
    COMPONENTS[name](ExecutorInput.parse(executor_input))


def _ingest(task: ExecutorInput) -> None:
    from penstock.components.example_gen.ingest import ingest
    from penstock.components.example_gen.options import (
        IngestInput,
        IngestOptions,
        Split,
        SplitOptions,
    )
    from penstock.components.sources.kinds import options_type

    given = task.parameters
    options = from_plain(IngestOptions, given.get("options", {}), where="options")
    for name, share in given.get("splits", {}).items():
        if not isinstance(share, int):
            raise UsageError(f"splits must be whole numbers by name, got {name}: {share!r}")
    shares = tuple(Split(name, share) for name, share in given.get("splits", {}).items())
    splits = SplitOptions(
        shares or SplitOptions.splits, partition_feature=given.get("partition_feature") or None
    )
    data, inputs = task.input_path("data"), given.get("inputs") or []
    if (data is None) == (not inputs):
        raise UsageError("give either the artifact data or the list inputs")
    kind = given.get("kind") or None
    values = {**given.get("source", {}), **({"kind": kind} if kind else {})}
    with tempfile.TemporaryDirectory() as folder:
        if schema := _schema_file(given, folder):
            values["schema_file"] = str(schema)
        one = IngestInput(
            inputs if data is None else str(data),
            from_plain(options_type(kind), values, where="source"),
            splits,
        )
        output, workers = task.output_path("examples"), given.get("workers", 1)
        manifest = ingest([one], output, options, engine=workers, overwrite=True)
    account = manifest.account
    print(f"{account.read:,} rows read, {len(manifest.shards)} shards: {manifest.plan}")
    figures = {
        "rows_read": account.read,
        **_by_split(account.written),
        "rows_quarantined": account.quarantined,
        "shards": len(manifest.shards),
    }
    task.write_metadata({"metrics": figures})


def _validate(task: ExecutorInput) -> None:
    from penstock.components.gates.options import GateOptions
    from penstock.pipelines.kubeflow.plain import validate

    given = task.parameters
    validation = validate.validate_examples(
        _examples(task),
        from_plain(GateOptions, given.get("options", {}), where="options"),
        schema_text=given.get("schema") or None,
        baseline=task.input_path("baseline"),
        workers=given.get("workers", 1),
        report=print,
    )
    statistics = task.output_path("statistics")
    shutil.rmtree(statistics, ignore_errors=True)
    validate.keep_validation(
        validation,
        statistics,
        schema=task.output_path("schema_used"),
        page=task.output_path("report"),
    )
    task.write_parameter("fit", "false" if validation.problems else "true")
    figures = {**_by_split(validation.rows), "problems": len(validation.problems)}
    task.write_metadata({"metrics": figures})
    if given.get("stop_if_unfit", True):
        validation.raise_problems()
    for problem in validation.problems:
        print(problem)


def _pack(task: ExecutorInput) -> None:
    from penstock.components.packing.options import ImageColumn, PackOptions
    from penstock.components.packing.pack import pack
    from penstock.components.packing.stated_columns import stated_columns

    given = task.parameters
    examples = _examples(task)
    values = dict(given.get("options", {}))
    values["images"] = [
        ImageColumn.parse(one) if isinstance(one, str) else one for one in values.get("images", ())
    ]
    options = from_plain(PackOptions, values, where="options")
    with tempfile.TemporaryDirectory() as folder:
        schema = _schema_file(given, folder)
        stated = stated_columns(schema) if schema else None
    output = task.output_path("packed")
    workers = given.get("workers", 1)
    manifest = pack(str(examples), output, options, stated=stated, engine=workers, overwrite=True)
    figures = {**_by_split(manifest.account.written), "shards": len(manifest.shards)}
    task.write_metadata({"metrics": figures})


COMPONENTS = {"ingest": _ingest, "validate": _validate, "pack": _pack}


def _examples(task: ExecutorInput) -> Path:
    examples = task.input_path("examples")
    if examples is None:
        raise UsageError("give the artifact examples")
    return examples


def _schema_file(given: Mapping[str, Any], folder: str) -> Path | None:
    if not given.get("schema"):
        return None
    file = Path(folder, "schema.pbtxt")
    file.write_text(given["schema"], encoding="utf-8")
    return file


def _by_split(rows: Mapping[str, int]) -> dict[str, int]:
    return {f"rows_{split}": count for split, count in rows.items()}
