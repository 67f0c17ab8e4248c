# The names of `penstock.sources` and the modules that define them.

from .components.engine.options import EngineOptions
from .components.example_gen.options import IngestOptions, Split, SplitOptions
from .components.example_gen.spark_writer import write_tfrecords
from .components.sources.arrow import Arrow
from .components.sources.avro import Avro
from .components.sources.binary import Binary
from .components.sources.images.options import Images
from .components.sources.jsonl import JsonLines
from .components.sources.lake import Delta, Iceberg
from .components.sources.options import Csv, Parquet, Table
from .components.sources.orc import Orc
from .components.sources.plain_text import Text
from .components.sources.served.source import Requests
from .components.sources.sql.options import Sql
from .components.sources.tfrecords.source import TFRecord
from .components.sources.tfrecords.tfds import Tfds
from .components.tfrecord.sharding import ShardOptions

__all__ = [
    "Arrow",
    "Avro",
    "Binary",
    "Csv",
    "Delta",
    "EngineOptions",
    "Iceberg",
    "Images",
    "IngestOptions",
    "JsonLines",
    "Orc",
    "Parquet",
    "Requests",
    "ShardOptions",
    "Split",
    "SplitOptions",
    "Sql",
    "TFRecord",
    "Table",
    "Text",
    "Tfds",
    "write_tfrecords",
]
