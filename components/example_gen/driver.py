"""Options of `ShardedExampleGen`, and its driver, which resolves spans and hashes the input.

TFX's own cache key has the files' total size and checksums of their modification times in whole
seconds. With this key, TFX would reuse the cached output after an edit that changes neither.
"""

import hashlib
import json
import os
import uuid
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from google.protobuf import struct_pb2
from tfx.components.example_gen import driver, input_processor, utils
from tfx.dsl.components.base.base_node import BaseNode
from tfx.orchestration import data_types
from tfx.proto import example_gen_pb2, range_config_pb2
from tfx.types import standard_component_specs
from tfx.utils import proto_utils

from penstock.components.errors import DataError, UsageError
from penstock.components.example_gen.options import IngestInput, IngestOptions, Split, SplitOptions
from penstock.components.example_gen.spans import Spans, has_span
from penstock.components.files.address import scheme_of
from penstock.components.files.content import hash_file
from penstock.components.files.find import find
from penstock.components.files.remote import RemoteFile
from penstock.components.plain import from_plain
from penstock.components.sources.files import map_files
from penstock.components.sources.kinds import find_kind, options_from_json
from penstock.components.sources.open import open_source
from penstock.components.sources.options import TABLE_KINDS, KindOptions, Table

_FIELD = "penstock"
# Pattern that TFX sets if no `input_config` is given.
_EVERYTHING = "*"
# Kinds whose rows depend only on the files that `find` returns, and on files that options name.
# None stands for a kind that is recognised from the files.
_HASHED_KINDS = (None, *TABLE_KINDS, "tfrecord", "images", "text", "binary")


@dataclass(frozen=True)
class NodeOptions:
    """Options of the node: how to read data, and how to write its rows as shards."""

    source: KindOptions = field(default_factory=Table)
    ingest: IngestOptions = field(default_factory=IngestOptions)

    def to_proto(self) -> example_gen_pb2.CustomConfig:
        # The Struct contains the options as JSON text, because all numbers in a Struct are doubles.
        struct = struct_pb2.Struct()
        values = {"source": asdict(self.source), "ingest": asdict(self.ingest)}
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
    """Returns the inputs of an execution: one to divide into splits, or one per split."""
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
    """Returns the data to open and the options, which for a database contain the query."""
    if source.kind is None or find_kind(source.kind).of_files:
        return f"{base.rstrip('/')}/{pattern}", source
    if pattern == _EVERYTHING:
        return base, source
    return base, source.with_query(pattern)  # type: ignore[attr-defined]  # see Kind.of_files


def _message(properties: Mapping[str, Any], key: str, message: Any) -> Any:
    proto_utils.json_to_proto(properties[key], message)
    return message


class ContentDriver(driver.FileBasedDriver):
    """Resolves span and version, and adds a digest of all content to the cache key."""

    def get_input_processor(
        self,
        splits: Iterable[example_gen_pb2.Input.Split],
        range_config: range_config_pb2.RangeConfig | None = None,
        input_base_uri: str | None = None,
    ) -> input_processor.InputProcessor:
        assert input_base_uri is not None
        if scheme_of(input_base_uri) is None or any(has_span(split.pattern) for split in splits):
            return Spans(input_base_uri, splits, range_config)
        return _QueryProcessor(splits, range_config)

    def resolve_exec_properties(
        self,
        exec_properties: dict[str, Any],
        pipeline_info: data_types.PipelineInfo,
        component_info: data_types.ComponentInfo,
    ) -> dict[str, Any]:
        """Returns the properties with span, version and fingerprint.

        Raises:
            DataError: A pattern matches no file.
        """
        properties = super().resolve_exec_properties(exec_properties, pipeline_info, component_info)
        properties[utils.FINGERPRINT_PROPERTY_NAME] = input_fingerprint(node_inputs(properties))
        return properties


def resolved_fingerprint(node: BaseNode) -> str:
    """Returns the fingerprint of the input that a `ShardedExampleGen` would read at this moment."""
    properties = ContentDriver(None).resolve_exec_properties(dict(node.exec_properties), None, None)
    return str(properties[utils.FINGERPRINT_PROPERTY_NAME])


def input_fingerprint(inputs: Sequence[IngestInput]) -> str:
    """Returns the sha256 (hex) of the names and contents of all files that determine the output.

    Data files, and files that options name (such as labels), are hashed, not parsed. Sources of
    kinds that are not in `_HASHED_KINDS`, such as Delta tables, compute a fingerprint when they are
    opened. The rows of a database are read only once, by the executor, so a fingerprint of the
    database's state is used here instead. If a database cannot provide one, the result differs at
    each call.
    """
    digest = hashlib.sha256()
    for path in _option_files(inputs[0].source):
        digest.update(_line(path))
    for one in inputs:
        assert isinstance(one.data, str)
        source = one.source or Table()
        if source.kind not in _HASHED_KINDS:
            digest.update(_state(one.data, source).encode())
            continue
        found = find(one.data, source.kind)
        for line in map_files(_line, found.files):
            digest.update(line)
        for path, reason in sorted(found.refused.items()):
            digest.update(os.fsencode(f"{path}\0{reason}\n"))
    return digest.hexdigest()


def _state(data: str, source: KindOptions) -> str:
    """Returns the fingerprint of data whose kind is not in `_HASHED_KINDS`."""
    assert source.kind is not None
    kind = find_kind(source.kind)
    if kind.of_files:
        return open_source(data, source).fingerprint
    return kind.load_state()(data) or uuid.uuid4().hex


def _option_files(source: KindOptions | None) -> list[str]:
    """Returns the files that options name, except `credentials_file`: rows do not depend on it."""
    values = asdict(source) if source else {}
    names = [name for name in values if name.endswith("_file") and name != "credentials_file"]
    return [values[name] for name in names if values[name]]


def _line(file: str) -> bytes:
    # If the file is in a store that reports its version, the content need not be read.
    version = file.sure_version if isinstance(file, RemoteFile) else None
    try:
        version = version or hash_file(file).digest.hex()
    except DataError as error:
        # If files are rows, an ingest rejects a file without read permission and continues.
        if not isinstance(error.__cause__, PermissionError):
            raise
        version = "denied"
    return os.fsencode(f"{file}\0{version}\n")


class _QueryProcessor(input_processor.QueryBasedInputProcessor):
    """Fills placeholders such as `@span_begin_timestamp` in queries, as TFX does for BigQuery."""

    def get_latest_span(self) -> int:
        raise UsageError("range_config must be a static_range for data without spans in its names")
