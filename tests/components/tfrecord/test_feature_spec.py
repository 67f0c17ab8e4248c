import pytest
import tensorflow as tf
from google.protobuf import text_format
from tensorflow_metadata.proto.v0 import schema_pb2

from penstock.components.errors import DataError, UsageError
from penstock.components.tfrecord.feature_spec import feature_spec


def spec_of(feature, **options):
    schema = text_format.Parse(f'feature {{ name: "a" {feature} }}', schema_pb2.Schema())
    return feature_spec(schema, **options)["a"]


@pytest.mark.parametrize(
    ("feature", "expected"),
    [
        (
            "type: INT shape { dim { size: 1 } } presence { min_fraction: 1 }",
            tf.io.FixedLenFeature([1], tf.int64),
        ),
        (
            "type: FLOAT value_count { min: 1 max: 1 } presence { min_count: 1 }",
            tf.io.FixedLenFeature([1], tf.float32, [0.0]),
        ),
        ("type: BYTES value_count { max: 1 }", tf.io.FixedLenFeature([1], tf.string, [b""])),
        ("type: INT shape { }", tf.io.FixedLenFeature([], tf.int64, 0)),
        ("type: BYTES shape { }", tf.io.FixedLenFeature([], tf.string, "")),
        (
            "type: INT value_count { min: 2 max: 2 }",
            tf.io.FixedLenFeature([2], tf.int64, [0, 0]),
        ),
        (
            "type: FLOAT shape { dim { size: 2 } dim { size: 1 } } presence { min_fraction: 1 }",
            tf.io.FixedLenFeature([2, 1], tf.float32),
        ),
        ("type: INT value_count { min: 1 max: 3 }", tf.io.VarLenFeature(tf.int64)),
        ("type: BYTES", tf.io.VarLenFeature(tf.string)),
    ],
)
def test_each_kind_of_feature(feature, expected):
    assert spec_of(feature) == expected


def test_a_feature_is_sparse_by_choice():
    feature = "type: INT value_count { min: 1 max: 1 }"
    assert spec_of(feature, var_len=["a"]) == tf.io.VarLenFeature(tf.int64)


def test_a_choice_that_the_schema_does_not_have_is_named():
    with pytest.raises(UsageError, match=r"does not have: b, c; it has a$"):
        spec_of("type: INT", var_len=["c", "b"])


@pytest.mark.parametrize("stage", ["deprecated: true", "lifecycle_stage: PLANNED"])
def test_a_feature_out_of_use_is_left_out(stage):
    schema = text_format.Parse(
        f'feature {{ name: "a" type: INT {stage} }} feature {{ name: "b" type: INT }}',
        schema_pb2.Schema(),
    )
    assert list(feature_spec(schema)) == ["b"]


@pytest.mark.parametrize(
    ("feature", "message"),
    [
        ("type: STRUCT", "feature 'a' is STRUCT in the schema; a record holds flat lists"),
        ("", "feature 'a' is TYPE_UNKNOWN in the schema"),
        ("type: INT value_counts { }", "feature 'a' is INT with nested value_counts"),
        ("type: INT shape { dim { } }", r"feature 'a' has shape \[0\] in the schema"),
    ],
)
def test_a_kind_that_records_do_not_hold_is_refused(feature, message):
    with pytest.raises(DataError, match=message):
        spec_of(feature)


def represented(features, representation):
    text = f"""{features} tensor_representation_group {{ key: "" value {{ tensor_representation {{
      key: "a" value {{ {representation} }} }} }} }}"""
    return text_format.Parse(text, schema_pb2.Schema())


def test_a_ragged_feature_has_its_values_and_lengths_in_others():
    schema = represented(
        """feature { name: "a$ragged_values" type: FLOAT } feature { name: "b" type: INT }
        feature { name: "a$row_lengths_1" type: INT }""",
        """ragged_tensor { feature_path { step: "a$ragged_values" }
        partition { row_length: "a$row_lengths_1" } partition { uniform_row_length: 2 } }""",
    )
    ragged = tf.io.RaggedFeature
    parts = (ragged.RowLengths("a$row_lengths_1"), ragged.UniformRowLength(2))
    assert feature_spec(schema) == {
        "a": ragged(tf.float32, "a$ragged_values", parts),
        "b": tf.io.VarLenFeature(tf.int64),
    }


@pytest.mark.parametrize(
    ("representation", "message"),
    [
        ("sparse_tensor { }", "the schema represents 'a' as sparse_tensor; training reads dense_t"),
        (
            'ragged_tensor { feature_path { step: "c" } }',
            "the schema has no feature 'c', in which 'a' is to have its values: correct the ragged",
        ),
    ],
)
def test_a_representation_that_training_does_not_read_is_refused(representation, message):
    with pytest.raises(DataError, match=message):
        feature_spec(represented('feature { name: "a" type: INT }', representation))


def test_a_schema_is_read_from_its_file_and_a_file_that_is_none_is_named(tmp_path):
    path = tmp_path / "schema.pbtxt"
    path.write_text('feature { name: "a" type: INT }')
    assert feature_spec(path) == {"a": tf.io.VarLenFeature(tf.int64)}
    path.unlink()
    with pytest.raises(DataError, match=r"schema\.pbtxt: the schema cannot be read"):
        feature_spec(path)
    path.write_text("feature [")
    with pytest.raises(DataError, match=r"schema\.pbtxt: not a TFMD schema.pbtxt \(1:"):
        feature_spec(path)
