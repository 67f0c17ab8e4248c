import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tfx.components.example_gen.base_example_gen_executor import _PartitionFn
from tfx.proto import example_gen_pb2

from penstock.components.errors import DataError, UsageError
from penstock.components.example_gen.options import Split, SplitOptions
from penstock.components.example_gen.splits import assign_splits, check_partition, row_digests
from penstock.components.sources.base import Column
from penstock.components.tfrecord.encoder import encode_examples
from penstock.components.tfrecord.feature_kind import FeatureKind

THREE = (Split("train", 7), Split("eval", 2), Split("test", 1))


def rows_of(table):
    import tensorflow as tf

    return [tf.train.Example.FromString(r) for r in encode_examples(table).to_pylist()]


def by_tfx(table, options):
    config = example_gen_pb2.SplitConfig(
        splits=[{"name": s.name, "hash_buckets": s.hash_buckets} for s in options.splits],
        partition_feature_name=options.partition_feature,
    )
    buckets = np.cumsum([s.hash_buckets for s in options.splits]).tolist()
    return [_PartitionFn(row, len(buckets), buckets, config) for row in rows_of(table)]


@settings(deadline=None)
@given(st.lists(st.tuples(st.integers(-(2**63), 2**63 - 1), st.binary()), min_size=1, max_size=30))
def test_every_row_is_in_the_split_that_tfx_gives_it(rows):
    table = pa.record_batch(
        [pa.array([i for i, _ in rows], pa.int64()), pa.array([b for _, b in rows], pa.binary())],
        ["id", "name"],
    )
    for feature in (None, "id", "name"):
        options = SplitOptions(THREE, partition_feature=feature)
        splits = assign_splits(table, row_digests(encode_examples(table)), options)
        assert splits.tolist() == by_tfx(table, options)


def test_digests_decide_unless_a_feature_does():
    table = pa.record_batch([pa.array([1, 1, 1], pa.int64())], ["id"])
    digests = [bytes(31) + bytes([last]) for last in (6, 8, 9)]
    assert assign_splits(table, digests, SplitOptions(THREE)).tolist() == [0, 1, 2]
    by_feature = SplitOptions(THREE, partition_feature="id")
    assert len(set(assign_splits(table, digests, by_feature).tolist())) == 1


def test_a_missing_partition_value_is_named():
    table = pa.record_batch([pa.array([1, None], pa.int64())], ["user"])
    options = SplitOptions(partition_feature="user")
    with pytest.raises(DataError, match=r"partition feature 'user' has no value in 1 row"):
        assign_splits(table, row_digests(encode_examples(table)), options)


@pytest.mark.parametrize("feature", ["fare", "nobody"])
def test_a_partition_feature_that_cannot_be_hashed_is_refused(feature):
    columns = [Column("fare", FeatureKind.FLOAT), Column("user", FeatureKind.BYTES)]
    with pytest.raises(UsageError, match=rf"'{feature}' must be an INT or BYTES .* choices: user"):
        check_partition(SplitOptions(partition_feature=feature), columns)


def test_a_splits_name_is_one_of_a_folder():
    for name in ("", ".", "..", "a/b", "a\0"):
        with pytest.raises(UsageError) as caught:
            Split(name)
        assert str(caught.value) == f"a split's name must be a folder's, got {name!r}"
    Split("ü" * 124 + "a")  # 249 bytes; with `Split-` 255, the limit of a file name
    with pytest.raises(UsageError) as caught:
        Split("ü" * 125)
    assert str(caught.value) == (
        "a split's name has at most 249 bytes, got 250: 'üüüüüüüüüüüüüüüüüüüü'..."
    )


@pytest.mark.parametrize(
    ("values", "at"),
    [
        (pa.array([b"2024-01-31", b"2024-02-01", b"2023-12-31", b"2024-02-02"]), "2024-02-01"),
        (pa.array([1, 3, -5, 4]), "3"),
        (pa.array([1.5, 2.5, 0.0, 9.0], pa.float32()), "2.25"),
        (pa.array([2**53, 2**53 + 3, -(2**63), 2**63 - 1]), str(2**53 + 1)),
        (pa.array([2, 3, 0, 4]), "2.5"),
        (pa.array([0.6, 0.7, -1.0, 12.3], pa.float32()), "0.7"),
        (pa.array([0.6, 0.7, 0.6999999, 12.3]), "0.7"),
    ],
)
def test_rows_from_the_threshold_on_are_the_last_split(values, at):
    batch = pa.RecordBatch.from_arrays([values], ["time"])
    options = SplitOptions(partition_feature="time", split_at=at)
    assert assign_splits(batch, (), options).tolist() == [0, 1, 0, 1]


@pytest.mark.parametrize(
    ("kind", "threshold"),
    [
        ("INT", "2024-01-01"),
        ("INT", "nan"),
        ("INT", str(2**63)),
        ("INT", "-1e999999999"),
        ("FLOAT", "inf"),
        ("FLOAT", "sNaN"),
        ("FLOAT", "1e39"),
    ],
)
def test_threshold_that_no_row_of_a_column_of_numbers_can_have_is_refused(kind, threshold):
    column = Column("year", FeatureKind[kind], is_list=False)
    options = SplitOptions(partition_feature="year", split_at=threshold)
    with pytest.raises(UsageError, match=f"'year' holds numbers: .* got '{threshold}'"):
        check_partition(options, [column])
    with pytest.raises(UsageError, match="two splits by a partition feature"):
        check_partition(SplitOptions(split_at="3"), [column])
