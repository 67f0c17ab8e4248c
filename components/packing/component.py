"""TFX node that packs row Examples into packed shards, for training."""

import os
from typing import Any

from tfx import types
from tfx.components.util import examples_utils
from tfx.dsl.components.base import base_beam_component, base_beam_executor, executor_spec
from tfx.proto import example_gen_pb2
from tfx.types import artifact_utils, standard_artifacts
from tfx.types.component_spec import ChannelParameter, ComponentSpec, ExecutionParameter

from penstock.components.engine.pipeline import node_engine
from penstock.components.errors import UsageError
from penstock.components.packing.options import PackOptions
from penstock.components.packing.pack import pack
from penstock.components.packing.transformed import TransformedRows, stated_columns
from penstock.components.plain import from_json, to_json
from penstock.components.sources.tfrecords.examples import ReadShard, read_examples
from penstock.components.tfrecord.manifest import MANIFEST_PROPERTY

_TRANSFORMED_SCHEMA = os.path.join("transformed_metadata", "schema.pbtxt")
_SCHEMA = "schema.pbtxt"


class PackSpec(ComponentSpec):
    PARAMETERS = {  # noqa: RUF012 - as TFX declares them
        "options": ExecutionParameter(type=str),
        "apply_graph": ExecutionParameter(type=int, optional=True),
    }
    INPUTS = {  # noqa: RUF012
        "examples": ChannelParameter(type=standard_artifacts.Examples),
        "transform_graph": ChannelParameter(type=standard_artifacts.TransformGraph, optional=True),
        "schema": ChannelParameter(type=standard_artifacts.Schema, optional=True),
    }
    OUTPUTS = {"packed": ChannelParameter(type=standard_artifacts.Examples)}  # noqa: RUF012


class Executor(base_beam_executor.BaseBeamExecutor):
    def Do(  # noqa: N802, TFX's name
        self,
        input_dict: dict[str, list[types.Artifact]],
        output_dict: dict[str, list[types.Artifact]],
        exec_properties: dict[str, Any],
    ) -> None:
        packed = artifact_utils.get_single_instance(output_dict["packed"])
        stated = None
        for key, file in (("transform_graph", _TRANSFORMED_SCHEMA), ("schema", _SCHEMA)):
            if input_dict.get(key):
                uri = artifact_utils.get_single_uri(input_dict[key])
                stated = stated_columns(os.path.join(uri, file))
        options = from_json(PackOptions, exec_properties["options"])
        read: ReadShard = read_examples
        if exec_properties.get("apply_graph"):
            read = TransformedRows(artifact_utils.get_single_uri(input_dict["transform_graph"]))
        manifest = pack(
            [examples.uri for examples in input_dict["examples"]],
            packed.uri,
            options,
            stated=stated,
            read=read,
            engine=node_engine(self._make_beam_pipeline),
        )
        packed.split_names = artifact_utils.encode_split_names(list(manifest.splits))
        packed.set_string_custom_property(MANIFEST_PROPERTY, manifest.sha256)
        # If an output has this payload format, TFX's readers reject it with a clear error: it has
        # no DataView. If the blocks were declared as Examples, the parser would fail at each of
        # them.
        examples_utils.set_payload_format(packed, example_gen_pb2.FORMAT_PROTO)


class Pack(base_beam_component.BaseBeamComponent):
    """Packs row Examples, raw or transformed, into packed shards for a Trainer.

    `outputs["packed"]`: `Examples` with `Split-*/` of packed shards and `manifest.json`, for
    `Input.packed`. All other nodes read the row Examples.

    Args:
        examples: Row Examples.
        transform_graph: Output of the Transform; its schema determines columns and shapes.
        apply_graph: Whether to apply the transform graph to raw Examples, so that no transformed
            Examples are needed.
        schema: Schema of raw Examples; without schema and graph, the rows determine the columns.
        options: Columns to keep, and how to store them.

    Raises:
        UsageError: Both a schema and a transform graph are given, or `apply_graph` without a graph.
    """

    SPEC_CLASS = PackSpec
    EXECUTOR_SPEC = executor_spec.BeamExecutorSpec(Executor)

    def __init__(
        self,
        examples: types.BaseChannel,
        *,
        transform_graph: types.BaseChannel | None = None,
        apply_graph: bool = False,
        schema: types.BaseChannel | None = None,
        options: PackOptions | None = None,
    ) -> None:
        if transform_graph is not None and schema is not None:
            raise UsageError("Pack takes a transform_graph or a schema, not both")
        if apply_graph and transform_graph is None:
            raise UsageError("Pack needs the transform_graph that it is to apply")
        super().__init__(
            PackSpec(
                examples=examples,
                transform_graph=transform_graph,
                schema=schema,
                apply_graph=int(apply_graph),
                options=to_json(options or PackOptions()),
                packed=types.Channel(type=standard_artifacts.Examples),
            )
        )
