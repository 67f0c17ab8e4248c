"""TFX node with FileBasedExampleGen's inputs and splits, but Penstock's shards and manifest."""

import logging
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import Any

from tfx import types
from tfx.components.example_gen.component import FileBasedExampleGen
from tfx.components.util import examples_utils
from tfx.dsl.components.base import base_beam_executor, executor_spec
from tfx.proto import example_gen_pb2, range_config_pb2
from tfx.types import artifact_utils, standard_component_specs

from penstock.components.engine.pipeline import node_engine
from penstock.components.example_gen.driver import ContentDriver, NodeOptions, node_inputs
from penstock.components.example_gen.ingest import PlannedInput, ingest
from penstock.components.example_gen.options import IngestOptions
from penstock.components.files.address import FILE_SCHEMES, check_no_secret, scheme_of
from penstock.components.files.spool import remove_copies
from penstock.components.sources.options import KindOptions, Table
from penstock.components.tfrecord.manifest import MANIFEST_PROPERTY


class Executor(base_beam_executor.BaseBeamExecutor):
    def Do(  # noqa: N802, TFX's name
        self,
        input_dict: dict[str, list[types.Artifact]],
        output_dict: dict[str, list[types.Artifact]],
        exec_properties: dict[str, Any],
    ) -> None:
        del input_dict
        examples = artifact_utils.get_single_instance(
            output_dict[standard_component_specs.EXAMPLES_KEY]
        )
        planned: list[PlannedInput] = []
        try:
            manifest = ingest(
                node_inputs(exec_properties),
                examples.uri,
                NodeOptions.from_properties(exec_properties).ingest,
                engine=node_engine(self._make_beam_pipeline),
                on_planned=planned.append,
            )
        finally:
            remove_copies()  # else they would stay while this process trains a model
        logging.info("Shards: %s", manifest.plan)
        examples.split_names = artifact_utils.encode_split_names(list(manifest.splits))
        examples.set_string_custom_property(MANIFEST_PROPERTY, manifest.sha256)
        has_sequences = any(one.source.has_sequences for one in planned)
        examples_utils.set_payload_format(
            examples,
            example_gen_pb2.FORMAT_TF_SEQUENCE_EXAMPLE
            if has_sequences
            else example_gen_pb2.FORMAT_TF_EXAMPLE,
        )


class ShardedExampleGen(FileBasedExampleGen):
    """Turns outside files, or rows of a database, into sharded, checked TFRecords.

    It accepts the same input as TFX's file-based ExampleGens: an input folder, patterns with
    `{SPAN}`, `{VERSION}` and dates, splits by input or by hash buckets, a partition feature. In
    addition, it plans the number of shards and writes a manifest with row counts beside the splits,
    and its cache key covers the content of the files.

    `outputs["examples"]`: `Examples` with `Split-*/data_tfrecord-*` and `manifest.json`.

    Args:
        input_base: Folder with the data, as a path or an address; or the address of a database.
        input_config: Patterns below the folder, one per input split; None reads all of the folder
            as a single input split. For a database, each pattern is a query, which may contain
            TFX's placeholders `@span_begin_timestamp`, `@span_end_timestamp` and
            `@span_yyyymmdd_utc` for the span of `range_config`.
        output_config: Output splits; None makes train and eval, with two train rows to one eval
            row, or keeps the input splits if there are several.
        range_config: The span to read; None reads the latest.
        source: Kind of the data, with the options for reading it; None reads files of tables.
        ingest: Options for shards, compression and rejected rows.
    """

    EXECUTOR_SPEC = executor_spec.BeamExecutorSpec(Executor)
    DRIVER_CLASS = ContentDriver

    def __init__(
        self,
        input_base: str,
        *,
        input_config: example_gen_pb2.Input | None = None,
        output_config: example_gen_pb2.Output | None = None,
        range_config: range_config_pb2.RangeConfig | None = None,
        source: KindOptions | None = None,
        ingest: IngestOptions | None = None,
    ) -> None:
        options = NodeOptions(source or Table(), ingest or IngestOptions())
        # Addresses that contain secrets are rejected here, before TFX stores the node's parameters.
        patterns = [split.pattern for split in input_config.splits] if input_config else []
        for address in _addresses(input_base, patterns, options.source):
            check_no_secret(address, "have it in the environment of the node that reads")
        super().__init__(
            input_base=input_base,
            input_config=input_config,
            output_config=output_config,
            range_config=range_config,
            custom_config=options.to_proto(),
        )


def _addresses(base: str, patterns: Sequence[str], source: KindOptions) -> Iterator[str]:
    """Yields parameters that may be addresses: the input, and options such as a file's path."""
    yield base
    if scheme_of(base) in FILE_SCHEMES:  # a database's patterns are queries
        yield from (f"{base}/{pattern}" for pattern in patterns)
    for value in asdict(source).values():
        if isinstance(value, str) and scheme_of(value) in FILE_SCHEMES:
            yield value
