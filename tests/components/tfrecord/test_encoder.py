import math

import numpy as np
import pyarrow as pa
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.components.tfrecord.encoder import (
    encode_examples,
    encode_features,
    encode_sequences,
)

INT = st.integers(-(2**63), 2**63 - 1)
FLOAT = st.floats(width=32, allow_nan=True)
KINDS = {
    "int": (INT, pa.int64()),
    "float": (FLOAT, pa.float32()),
    "bytes": (st.binary(max_size=300), pa.binary()),
}


@st.composite
def columns(draw, rows):
    values, kind = KINDS[draw(st.sampled_from(sorted(KINDS)))]
    if draw(st.booleans()):
        values, kind = st.lists(values, max_size=4), pa.list_(kind)
    if draw(st.booleans()):
        values = st.none() | values
    return pa.array(draw(st.lists(values, min_size=rows, max_size=rows)), kind)


@st.composite
def batches(draw):
    rows = draw(st.integers(1, 5))
    names = draw(st.lists(st.text(max_size=5), unique=True, max_size=5))
    arrays = [draw(columns(rows)) for _ in names]
    if not names:
        return pa.record_batch([pa.array(range(rows), pa.int64())], ["only"])
    return pa.record_batch(arrays, names)


def feature(value, kind):
    if value is None:
        return tf.train.Feature()
    is_list = pa.types.is_list(kind)
    values = value if is_list else [value]
    kind = kind.value_type if is_list else kind
    if kind == pa.int64():
        return tf.train.Feature(int64_list=tf.train.Int64List(value=values))
    if kind == pa.float32():
        return tf.train.Feature(float_list=tf.train.FloatList(value=values))
    return tf.train.Feature(bytes_list=tf.train.BytesList(value=values))


def protobuf_encoding(batch):
    """Each row by protobuf, its map entries in the order of their keys.

    In protobuf 6 deterministic serialization has 'aa' before 'a', in 3.20 after it; so each entry
    is serialized by itself.
    """
    rows = []
    for row in range(batch.num_rows):
        fields = sorted(zip(batch.schema, batch.columns, strict=True), key=lambda f: f[0].name)
        entries = [
            tf.train.Features(feature={field.name: feature(column[row].as_py(), field.type)})
            for field, column in fields
        ]
        example = tf.train.BytesList(value=[b"".join(e.SerializeToString() for e in entries)])
        rows.append(example.SerializeToString())  # Example and BytesList: field 1, with its length
    return rows


@settings(max_examples=60, deadline=None)
@given(batches())
def test_writes_the_bytes_of_protobuf_with_map_entries_in_order(batch):
    assert encode_examples(batch).to_pylist() == protobuf_encoding(batch)


@settings(max_examples=30, deadline=None)
@given(batches(), st.integers(0, 4))
def test_a_slice_is_encoded_like_its_rows(batch, start):
    assert encode_examples(batch.slice(start)).to_pylist() == protobuf_encoding(batch)[start:]


def test_long_values_take_longer_lengths():
    sizes = [0, 1, 100, 127, 128, 16_383, 16_384, 3_000_000]
    batch = pa.record_batch([pa.array([b"x" * n for n in sizes], pa.binary())], ["image"])
    assert encode_examples(batch).to_pylist() == protobuf_encoding(batch)


def test_no_rows_and_no_columns():
    assert encode_examples(pa.record_batch([pa.array([], pa.int64())], ["a"])).to_pylist() == []


def test_a_type_that_is_no_feature_is_named():
    batch = pa.record_batch([pa.array([1.0], pa.float64())], ["fare"])
    with pytest.raises(TypeError, match=r"column 'fare': type double; expected int64, float32"):
        encode_examples(batch)


def test_features_alone_are_the_messages_that_a_partition_hashes():
    column = pa.array([7, None, -1], pa.int64())
    expected = [feature(v, pa.int64()).SerializeToString(deterministic=True) for v in (7, None, -1)]
    assert encode_features(column).to_pylist() == expected


def test_nan_and_infinity_keep_their_bits():
    batch = pa.record_batch([pa.array([math.nan, math.inf, -0.0], pa.float32())], ["x"])
    decoded = [
        tf.train.Example.FromString(r).features.feature["x"].float_list.value[0]
        for r in encode_examples(batch).to_pylist()
    ]
    np.testing.assert_array_equal(decoded, np.array([math.nan, math.inf, -0.0], np.float32))


def sequence(row, kinds, lists):
    """A row as protobuf has it, of columns whose order and number of steps it keeps."""
    message = tf.train.SequenceExample()
    message.context.SetInParent()
    message.feature_lists.SetInParent()
    for name, value in row.items():
        if name not in lists:
            message.context.feature[name].CopyFrom(feature(value, kinds[name]))
            continue
        steps = message.feature_lists.feature_list[name].feature
        steps.extend(feature(step, kinds[name].value_type) for step in value or ())
    return message


def test_sequences_are_the_messages_of_protobuf():
    batch = pa.RecordBatch.from_pydict(
        {
            "price": pa.array([[1.5, -2.0], None, [0.25]], pa.list_(pa.float32())),
            "tags": pa.array([[[], [b"a", b"b"]], [], None], pa.list_(pa.list_(pa.binary()))),
            "ids": pa.array([[[1, 300], [-1]], [[2**40]], []], pa.list_(pa.list_(pa.int64()))),
            "label": pa.array([7, None, 9]),
            "words": pa.array([[b"x"], [], None], pa.list_(pa.binary())),
        }
    )
    kinds = {field.name: field.type for field in batch.schema}
    lists = {"price", "tags", "ids"}
    records = encode_sequences(batch, lists).to_pylist()
    for record, row in zip(records, batch.to_pylist(), strict=True):
        parsed = tf.train.SequenceExample.FromString(record)
        assert parsed == sequence(row, kinds, lists)
        assert len(record) == parsed.ByteSize()
    assert encode_sequences(batch.slice(1, 1), lists).to_pylist() == records[1:2]
    assert encode_sequences(batch.slice(0, 0), lists).to_pylist() == []


def test_a_sequence_without_context_or_without_lists():
    batch = pa.RecordBatch.from_pydict({"b": pa.array([[1], [2, 3]]), "a": pa.array([[4], []])})
    kinds = {"a": batch.schema.field("a").type, "b": batch.schema.field("b").type}
    for lists in ({"a", "b"}, set(), {"b"}):
        records = encode_sequences(batch, lists).to_pylist()
        rows = [tf.train.SequenceExample.FromString(record) for record in records]
        assert rows == [sequence(row, kinds, lists) for row in batch.to_pylist()]


def test_the_bytes_of_a_sequence():
    batch = pa.RecordBatch.from_pydict({"s": pa.array([[5]]), "c": pa.array([6])})
    assert encode_sequences(batch, {"s"})[0].as_py() == (
        b"\x0a\x0c\x0a\x0a\x0a\x01c\x12\x05\x1a\x03\x0a\x01\x06"
        b"\x12\x0e\x0a\x0c\x0a\x01s\x12\x07\x0a\x05\x1a\x03\x0a\x01\x05"
    )
