"""ExampleGen of the digits, which writes them first if they do not exist.

Its driver writes them before it lists the input files, in `penstock run` and in a container.
"""

from pathlib import Path
from typing import Any

from tfx.orchestration import data_types
from tfx.types import standard_component_specs

from penstock.nodes import ShardedExampleGen
from penstock.pipelines.digits.data import write_digits

Driver: Any = ShardedExampleGen.DRIVER_CLASS


class DigitsDriver(Driver):
    """Driver that writes the digits into its input folder."""

    def resolve_exec_properties(
        self,
        exec_properties: dict[str, Any],
        pipeline_info: data_types.PipelineInfo,
        component_info: data_types.ComponentInfo,
    ) -> dict[str, Any]:
        """Writes the digits, then resolves the inputs; DataError if they cannot be written."""
        images = Path(exec_properties[standard_component_specs.INPUT_BASE_KEY])
        write_digits(images.parent)
        return super().resolve_exec_properties(exec_properties, pipeline_info, component_info)


class DigitsExampleGen(ShardedExampleGen):
    """`ShardedExampleGen` whose input folder need not exist yet."""

    DRIVER_CLASS = DigitsDriver
