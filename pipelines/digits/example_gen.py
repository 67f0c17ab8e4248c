"""The digits' ExampleGen: writes them first, wherever it runs, if they are not there.

A user's data are there before a pipeline begins. So are these, for everything but this node,
which does it in its driver: before files are looked for, in `penstock run` as in a container.
"""

from pathlib import Path
from typing import Any

from tfx.orchestration import data_types
from tfx.types import standard_component_specs

from penstock.nodes import ContentDriver, ShardedExampleGen
from penstock.pipelines.digits.data import write_digits


class DigitsDriver(ContentDriver):
    """`ContentDriver` of a folder that it fills."""

    def resolve_exec_properties(
        self,
        exec_properties: dict[str, Any],
        pipeline_info: data_types.PipelineInfo,
        component_info: data_types.ComponentInfo,
    ) -> dict[str, Any]:
        """See the base class.

        Raises:
            DataError: The digits cannot be written.
        """
        images = Path(exec_properties[standard_component_specs.INPUT_BASE_KEY])
        write_digits(images.parent)
        return super().resolve_exec_properties(exec_properties, pipeline_info, component_info)


class DigitsExampleGen(ShardedExampleGen):
    """`ShardedExampleGen` of `data.IMAGES` in a folder that need not be there yet."""

    DRIVER_CLASS = DigitsDriver
