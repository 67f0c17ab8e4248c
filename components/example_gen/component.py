"""The TFX node: FileBasedExampleGen's inputs and splits, Penstock's shards and manifest."""

from collections.abc import Iterator, Sequence

from tfx.components.example_gen.component import FileBasedExampleGen
from tfx.dsl.components.base import executor_spec
from tfx.proto import example_gen_pb2, range_config_pb2

from penstock.components.example_gen.driver import ContentDriver
from penstock.components.example_gen.executor import Executor
from penstock.components.example_gen.node_options import NodeOptions
from penstock.components.example_gen.options import IngestOptions
from penstock.components.files.address import FILE_SCHEMES, check_no_secret, scheme_of
from penstock.components.sources.kinds import options_to_json
from penstock.components.sources.options import KindOptions, Table


class ShardedExampleGen(FileBasedExampleGen):
    """Turns outside files into sharded, checked TFRecords.

    Takes what TFX's file-based ExampleGens take: an input folder, patterns with `{SPAN}`,
    `{VERSION}` and dates, splits by input or by hash buckets, a partition feature. Beyond
    that the number of shards is planned, a manifest with an account of rows stands beside
    the splits, and the cache key is the content of the files.

    `outputs["examples"]`: `Examples` with `Split-*/data_tfrecord-*` and `manifest.json`.

    Args:
        input_base: Folder that holds the data, a path or an address; or that of a database.
        input_config: Patterns below it; None takes everything in it as one split. For a database
            a pattern is a query, with TFX's `@span_begin_timestamp`, `@span_end_timestamp` and
            `@span_yyyymmdd_utc` for the span of `range_config`.
        output_config: Splits; None gives train and eval two rows to one.
        range_config: Which span to take; None takes the latest.
        source: How the data is read and typed: the options of its kind; None those of tables in
            files.
        ingest: Shards, compression, and what happens to rows that do not fit.
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
        # Before anything of the node is written anywhere.
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
    """What of a node may be an address: its input, and options as that of a label file."""
    yield base
    if scheme_of(base) in FILE_SCHEMES:  # else patterns are queries
        yield from (f"{base}/{pattern}" for pattern in patterns)
    for value in options_to_json(source).values():
        if isinstance(value, str) and scheme_of(value) in FILE_SCHEMES:
            yield value
