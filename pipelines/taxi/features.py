"""Columns of the taxi data and their transformation: names and sizes, without TensorFlow.

Input: the raw features of `schemas/taxi/schema.pbtxt`. Output for each trip: `numbers_xf` float32
[2 * len(NUMERIC)], `categories_xf` int64 [len(category_sizes())], and the label `big_tipper_xf`
int64 [1].
"""

from penstock.recipes import Target

NUMERIC = ("trip_miles", "fare", "trip_seconds")
"""Scaled to mean 0 and variance 1; missing values get the mean and a mark in another column."""

BUCKETED = ("pickup_latitude", "pickup_longitude", "dropoff_latitude", "dropoff_longitude")
"""Replaced by the number of the quantile bucket, 0..BUCKETS - 1."""

BUCKETS = 10

VOCABULARY = ("payment_type", "company")
"""Replaced by the rank in the training split's vocabulary."""

# The data has 7 payment types and 61 companies.
VOCABULARY_SIZE = 100
OUT_OF_VOCABULARY_BUCKETS = 10

COUNTED = {"trip_start_hour": 24, "trip_start_day": 8, "trip_start_month": 13}
"""Integers 0..size - 1, used unchanged; values outside this range become 0."""

TARGET = Target("tips", "binary", classes=("small tip", "big tip"), label="big_tipper_xf")
FARE = "fare"
BIG_TIP_SHARE_OF_FARE = 0.2


def category_sizes() -> dict[str, int]:
    """Returns the number of ids of each column of `categories_xf`, in their order."""
    vocabulary_size = VOCABULARY_SIZE + OUT_OF_VOCABULARY_BUCKETS
    return {
        **dict.fromkeys(BUCKETED, BUCKETS),
        **dict.fromkeys(VOCABULARY, vocabulary_size),
        **COUNTED,
    }
