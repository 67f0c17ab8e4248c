import pyarrow as pa
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.components.tfrecord.encoder import encode_examples, encode_features

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
    """Encodes each row with protobuf, with the map entries in the order of their keys.

    In protobuf 6, deterministic serialization has 'aa' before 'a'; in 3.20 it has 'aa' after 'a'.
    So each entry is serialized separately.
    """
    rows = []
    for row in range(batch.num_rows):
        fields = sorted(zip(batch.schema, batch.columns, strict=True), key=lambda f: f[0].name)
        entries = [
            tf.train.Features(feature={field.name: feature(column[row].as_py(), field.type)})
            for field, column in fields
        ]
        example = tf.train.BytesList(value=[b"".join(e.SerializeToString() for e in entries)])
        rows.append(example.SerializeToString())  # this BytesList is encoded like an Example
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
