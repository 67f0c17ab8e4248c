"""ImportSchemaGen whose cache key covers the file's content, not only its path."""

import hashlib
from pathlib import Path

from tfx import types
from tfx.components.schema_gen.import_schema_gen import executor
from tfx.dsl.components.base import base_component, executor_spec
from tfx.types import standard_artifacts
from tfx.types.component_spec import ExecutionParameter
from tfx.types.standard_component_specs import ImportSchemaGenSpec

from penstock.components.errors import UsageError


class CuratedSchemaSpec(ImportSchemaGenSpec):
    PARAMETERS = {  # noqa: RUF012 - as in TFX's spec classes
        **ImportSchemaGenSpec.PARAMETERS,
        "schema_sha256": ExecutionParameter(type=str),
    }


class CuratedSchema(base_component.BaseComponent):
    """Imports a schema file into the pipeline, and again whenever the file has changed.

    Args:
        schema_file: Path of a `schema.pbtxt`.

    Raises:
        UsageError: The file cannot be read.
    """

    SPEC_CLASS = CuratedSchemaSpec
    EXECUTOR_SPEC = executor_spec.ExecutorClassSpec(executor.Executor)

    def __init__(self, schema_file: str) -> None:
        try:
            content = Path(schema_file).read_bytes()
        except OSError as error:
            raise UsageError(f"schema: cannot read {schema_file}: {error.strerror}") from error
        super().__init__(
            CuratedSchemaSpec(
                schema_file=schema_file,
                schema_sha256=hashlib.sha256(content).hexdigest(),
                schema=types.Channel(type=standard_artifacts.Schema),
            )
        )
