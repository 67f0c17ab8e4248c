# The names of `penstock.sources` and the modules that define them.

from .components.example_gen.spark_writer import write_tfrecords
from .components.sources.avro.options import Avro
from .components.sources.images.options import Images
from .components.sources.lines.json.options import JsonLines
from .components.sources.lines.text.options import Text
from .components.sources.options import Table
from .components.sources.spark.source import Spark
from .components.sources.sql.options import Sql
from .components.sources.tfrecords.options import TFRecord
from .components.sources.tfrecords.tfds import Tfds
from .components.sources.whole_files.options import Binary

__all__ = [
    "Avro",
    "Binary",
    "Images",
    "JsonLines",
    "Spark",
    "Sql",
    "TFRecord",
    "Table",
    "Text",
    "Tfds",
    "write_tfrecords",
]
