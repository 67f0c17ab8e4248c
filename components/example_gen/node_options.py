"""The options of a `ShardedExampleGen` as TFX carries them: one proto, part of the cache key."""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from google.protobuf import struct_pb2
from tfx.components.example_gen import utils
from tfx.proto import example_gen_pb2
from tfx.types import standard_component_specs
from tfx.utils import proto_utils

from penstock.components.errors import UsageError
from penstock.components.example_gen.options import IngestInput, IngestOptions, Split, SplitOptions
from penstock.components.plain import from_plain
from penstock.components.sources.kinds import find_kind, options_from_json, options_to_json
from penstock.components.sources.options import KindOptions, Table

_FIELD = "penstock"
# The pattern of an input that has none, as TFX writes it.
_EVERYTHING = "*"


@dataclass(frozen=True)
class NodeOptions:
    """Options of the node: how data is read, and how its rows become shards."""

    source: KindOptions = field(default_factory=Table)
    ingest: IngestOptions = field(default_factory=IngestOptions)

    def to_proto(self) -> example_gen_pb2.CustomConfig:
        # JSON text within the Struct, because a Struct's own numbers are all doubles.
        struct = struct_pb2.Struct()
        values = {"source": options_to_json(self.source), "ingest": asdict(self.ingest)}
        struct[_FIELD] = json.dumps(values, sort_keys=True)
        config = example_gen_pb2.CustomConfig()
        config.custom_config.Pack(struct)
        return config

    @classmethod
    def from_properties(cls, properties: Mapping[str, Any]) -> "NodeOptions":
        config = _message(properties, "custom_config", example_gen_pb2.CustomConfig())
        struct = struct_pb2.Struct()
        config.custom_config.Unpack(struct)
        raw = json.loads(struct[_FIELD])
        return cls(options_from_json(raw["source"]), from_plain(IngestOptions, raw["ingest"]))


def node_inputs(properties: Mapping[str, Any]) -> list[IngestInput]:
    """Returns the inputs of an execution: one that is divided, or one for each split."""
    base = properties[standard_component_specs.INPUT_BASE_KEY]
    source = NodeOptions.from_properties(properties).source
    input_config = _message(properties, "input_config", example_gen_pb2.Input())
    output_config = _message(properties, "output_config", example_gen_pb2.Output())
    try:
        utils.generate_output_split_names(input_config, output_config)
    except RuntimeError as error:
        raise UsageError(f"input_config and output_config: {error}") from error
    inputs, output = input_config.splits, output_config.split_config
    if output.splits:
        divided = SplitOptions(
            tuple(Split(split.name, split.hash_buckets) for split in output.splits),
            output.partition_feature_name or None,
        )
        return [IngestInput(*_input(base, inputs[0].pattern, source), divided)]
    return [
        IngestInput(*_input(base, split.pattern, source), SplitOptions((Split(split.name),)))
        for split in inputs
    ]


def _input(base: str, pattern: str, source: KindOptions) -> tuple[str, KindOptions]:
    """Returns what to open, and how: files below `base`; or, at an address, a query."""
    if source.kind is None or find_kind(source.kind).of_files:
        return f"{base.rstrip('/')}/{pattern}", source
    if pattern == _EVERYTHING:
        return base, source
    return base, source.with_query(pattern)  # type: ignore[attr-defined]  # see Kind.of_files


def _message(properties: Mapping[str, Any], key: str, message: Any) -> Any:
    proto_utils.json_to_proto(properties[key], message)
    return message
