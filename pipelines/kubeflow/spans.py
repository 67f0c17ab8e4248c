"""Replaces the data address of an ExampleGen in a run by the address of `--span-from`."""

from tfx.proto import example_gen_pb2
from tfx.proto.orchestration import pipeline_pb2
from tfx.types.standard_component_specs import INPUT_BASE_KEY, INPUT_CONFIG_KEY
from tfx.utils import proto_utils

from penstock.components.errors import UsageError
from penstock.components.example_gen.spans import split_span_address
from penstock.pipelines.kubeflow.ir import find_node


def reads_files(node: pipeline_pb2.PipelineNode) -> bool:
    """Returns whether a node is a file-based ExampleGen whose input options are constant values."""
    options = node.parameters.parameters
    return all(
        key in options and options[key].HasField("field_value")
        for key in (INPUT_BASE_KEY, INPUT_CONFIG_KEY)
    )


def read_spans_from(ir: pipeline_pb2.Pipeline, node_id: str, address: str) -> None:
    """Changes a node of an IR so that it reads the newest span at an address."""
    folder, pattern = split_span_address(address)
    node = find_node(ir, node_id)
    if not reads_files(node):
        raise UsageError(f"--span-from is for an ExampleGen of files, not for node {node_id!r}")
    options = node.parameters.parameters
    text = options[INPUT_CONFIG_KEY].field_value
    config = example_gen_pb2.Input()
    proto_utils.json_to_proto(text.string_value, config)
    if len(config.splits) != 1:
        names = ", ".join(split.name for split in config.splits)
        raise UsageError(
            f"node {node_id!r} reads several inputs ({names}), --span-from gives one; "
            "put {SPAN} into their patterns instead"
        )
    config.splits[0].pattern = pattern
    text.string_value = proto_utils.proto_to_json(config)
    options[INPUT_BASE_KEY].field_value.string_value = folder
