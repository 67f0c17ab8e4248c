"""Claims about reading and training from TFRecords, and how a measured ratio decides them.

The claims are those of practitioners' texts on TFRecord and tf.data, and Penstock's own.
"""

from dataclasses import dataclass


@dataclass(frozen=True)
class Claim:
    """A claim that a measured ratio can settle.

    Attributes:
        text: The claim, as a sentence.
        wanted: Least ratio at which the claim holds.
        partly: Least ratio at which the claim holds in part; a ratio of 1 is no gain.
    """

    text: str
    wanted: float
    partly: float = 1.2


# Claims of practitioners' texts on TFRecord and tf.data.
IMAGES_TRAIN_FASTER = Claim(
    "Training on images from TFRecords takes 18 minutes where raw JPEG takes 27", 27 / 18
)
TABLES_TRAIN_FASTER = Claim("Tabular training is 3 to 4 times faster from TFRecords", 3.0)
EPOCHS_FASTER = Claim("With a tf.data pipeline, an epoch takes 40 seconds instead of 75", 75 / 40)
UP_TO_SEVEN_TIMES = Claim("Reading from TFRecords is up to 7 times faster", 7.0)
PROTOBUF_SMALLER = Claim("Protobuf is smaller than JSON", 1.2, 1.02)
PROTOBUF_FASTER = Claim("Protobuf is read faster than JSON", 1.5, 1.05)
PROTOBUF_WRITTEN_FASTER = Claim("Protobuf is written faster than JSON", 1.5, 1.05)
INTERLEAVE_FASTER = Claim(
    "Interleaved files are read faster than one file after another", 1.2, 1.05
)
PARALLEL_MAP_FASTER = Claim("A parallel map is faster than a serial one", 1.2, 1.05)
VECTORISED_FASTER = Claim("Parsing whole batches is faster than parsing single records", 2.0, 1.1)
CACHE_FASTER = Claim("A cache makes every epoch after the first faster", 2.0, 1.1)

# Penstock's own claims.
ROWS_9 = Claim("Row Examples are read 9 times as fast as single records, per CPU second", 9.0, 2.0)
PACKED_35 = Claim(
    "Packed tables are read 35 times as fast as single records, per CPU second", 35.0, 9.0
)
ROWS_TUNED = Claim("Row Examples are read faster than by tuned tf.data, per CPU second", 1.05, 0.95)
PACKED_8 = Claim(
    "Packed tables are read 8 times as fast as by tuned tf.data, per CPU second", 8.0, 2.0
)
PACKED_IMAGES_15 = Claim(
    "Packed images are read 15 times as fast as by a PIL loop, per CPU second", 15.0, 4.0
)
PACKED_NEAR_LIMIT = Claim(
    "Training from packed records is at most 5 % slower than on one cached batch", 0.95, 0.8
)
DEVICE_NEVER_WAITS = Claim(
    "With packed records, the device waits less than 3 % of the time", 0.97, 0.9
)
INGEST_10 = Claim("CSV is ingested 10 times as fast as by a Python loop, per CPU second", 10.0, 3.0)
INGEST_12 = Claim("CSV is ingested 12 times as fast as by CsvExampleGen, per CPU second", 12.0, 3.0)
AHEAD_OF_PEERS = Claim(
    "Packed records are read faster than any peer's single records, per CPU second", 1.0, 0.8
)
AHEAD_OF_BLOCKS = Claim(
    "Packed records are read faster than any peer's blocks of rows, per CPU second", 1.0, 0.8
)


def outcome(claim: Claim, measured: float) -> str:
    """Returns whether a claim holds at a measured ratio."""
    if measured >= claim.wanted:
        return "holds"
    return "holds in part" if measured >= claim.partly else "does not hold"
