"""Driver of `ShardedExampleGen`: spans and versions by TFX, the cache key by content.

TFX's own key is each file's size and time stamp in whole seconds, so an edit that keeps
both is served from the cache.
"""

import hashlib
import os
from collections.abc import Iterable, Sequence
from typing import Any

from tfx.components.example_gen import driver, input_processor, utils
from tfx.orchestration import data_types
from tfx.proto import example_gen_pb2, range_config_pb2

from penstock.components.errors import UsageError
from penstock.components.example_gen.node_options import node_inputs
from penstock.components.example_gen.options import IngestInput
from penstock.components.example_gen.spans import RemoteSpans, has_span
from penstock.components.files.address import scheme_of
from penstock.components.files.content import hash_file
from penstock.components.files.listing import list_files
from penstock.components.files.remote import RemoteFile
from penstock.components.sources.files import map_files
from penstock.components.sources.open import open_source
from penstock.components.sources.options import Table


class ContentDriver(driver.FileBasedDriver):
    """Resolves the span and version, and puts a digest of all content into the cache key."""

    def get_input_processor(
        self,
        splits: Iterable[example_gen_pb2.Input.Split],
        range_config: range_config_pb2.RangeConfig | None = None,
        input_base_uri: str | None = None,
    ) -> input_processor.InputProcessor:
        """Finder of spans: by the names of files, or by the placeholders of a query."""
        if input_base_uri is None or scheme_of(input_base_uri) is None:
            return super().get_input_processor(splits, range_config, input_base_uri)
        if any(has_span(split.pattern) for split in splits):
            return RemoteSpans(input_base_uri, splits, range_config)
        return _QueryProcessor(splits, range_config)

    def resolve_exec_properties(
        self,
        exec_properties: dict[str, Any],
        pipeline_info: data_types.PipelineInfo,
        component_info: data_types.ComponentInfo,
    ) -> dict[str, Any]:
        """Returns the properties with span, version and fingerprint filled in.

        Raises:
            DataError: A pattern matches no file.
        """
        properties = super().resolve_exec_properties(exec_properties, pipeline_info, component_info)
        properties[utils.FINGERPRINT_PROPERTY_NAME] = input_fingerprint(node_inputs(properties))
        return properties


def input_fingerprint(inputs: Sequence[IngestInput]) -> str:
    """Returns the sha256 (hex) of the names and contents of all files that decide the output."""
    schema_file = getattr(inputs[0].source, "schema_file", None)
    digest = hashlib.sha256()
    if schema_file:
        digest.update(_line(schema_file))
    for one in inputs:
        assert isinstance(one.data, str)
        if isinstance(one.source, Table):
            for line in map_files(_line, list_files(one.data, one.source.kind).files):
                digest.update(line)
        else:
            digest.update(open_source(one.data, one.source).fingerprint.encode())
    return digest.hexdigest()


def _line(file: str) -> bytes:
    # A store that tells the version of an object spares reading it here.
    version = file.sure_version if isinstance(file, RemoteFile) else None
    version = version or hash_file(file).sha256.hex()
    return os.fsencode(f"{file}\0{version}\n")


class _QueryProcessor(input_processor.QueryBasedInputProcessor):
    """Fills `@span_begin_timestamp` and similar into queries, as TFX does for BigQuery."""

    def get_latest_span(self) -> int:
        """Refuses: a query has no newest span."""
        raise UsageError("range_config must be a static_range for data without spans in its names")
