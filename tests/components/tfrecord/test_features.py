import datetime
import enum
import math
from fractions import Fraction

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given
from hypothesis import strategies as st

from penstock.components.errors import DataError
from penstock.components.tfrecord.feature_kind import FeatureKind
from penstock.components.tfrecord.features import example, feature, sequence_example

INT64 = st.integers(-(2**63), 2**63 - 1)
DATES = np.array(["2026-11-21"], "M8[D]")
CHOICES = "give bytes, str, bool, int, float, an enum member, or a list, array or tensor of them"
FLOAT32 = st.floats(width=32)


class Payment(enum.Enum):
    CASH = "cash"


class Day(enum.IntEnum):
    FRIDAY = 5


class Flags(enum.Flag):
    BOTH = 3


def values_of(proto):
    """Kind and values of a Feature, or None where it has none."""
    which = proto.WhichOneof("kind")
    return (which, list(getattr(proto, which).value)) if which else None


def ints(*values):
    return "int64_list", list(values)


def floats(*values):
    return "float_list", list(values)


def texts(*values):
    return "bytes_list", list(values)


def error_of(value, **options):
    with pytest.raises(DataError) as caught:
        feature(value, name="x", **options)
    return str(caught.value)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (b"raw", texts(b"raw")),
        (bytearray(b"raw"), texts(b"raw")),
        (memoryview(b"raw"), texts(b"raw")),
        ("größer", texts("größer".encode())),
        (b"", texts(b"")),
        ("", texts(b"")),
        (True, ints(1)),
        (0, ints(0)),
        (-(2**63), ints(-(2**63))),
        (2**63 - 1, ints(2**63 - 1)),
        (0.5, floats(0.5)),
        (math.inf, floats(math.inf)),
        (Payment.CASH, texts(b"cash")),
        (Day.FRIDAY, ints(5)),
        (Flags.BOTH, ints(3)),
        ([1, 2], ints(1, 2)),
        ((1, 2), ints(1, 2)),
        (range(3), ints(0, 1, 2)),
        ([True, 2], ints(1, 2)),
        ([1, 0.5], floats(1.0, 0.5)),
        ([Day.FRIDAY, 0.5], floats(5.0, 0.5)),
        ([b"a", "b", Payment.CASH], texts(b"a", b"b", b"cash")),
        (np.str_("a"), texts(b"a")),
        (np.bytes_(b"a"), texts(b"a")),
        (np.bool_(True), ints(1)),
        (np.longdouble(0.5), floats(0.5)),
        (np.array(3), ints(3)),
        (np.array("a"), texts(b"a")),
        (np.array([True, False]), ints(1, 0)),
        (np.array(["a", "ö"]), texts(b"a", "ö".encode())),
        (np.array([b"a", b"b"]), texts(b"a", b"b")),
        (np.array(["a", b"b\0"], object), texts(b"a", b"b\0")),
        (np.array([], np.int8), ints()),
        (np.array([], np.float64), floats()),
        (np.arange(6)[::2], ints(0, 2, 4)),
        (tf.constant(3), ints(3)),
        (tf.constant([True]), ints(1)),
        (tf.constant(["a", "b"]), texts(b"a", b"b")),
        (tf.constant("a"), texts(b"a")),
        (tf.constant([0.5], tf.bfloat16), floats(0.5)),
        (tf.Variable([0.5]), floats(0.5)),
        ([tf.constant(1), np.int8(2), 3], ints(1, 2, 3)),
    ],
)
def test_values_become(value, expected):
    assert values_of(feature(value)) == expected


@pytest.mark.parametrize(
    "dtype", [f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)]
)
def test_all_int_dtypes_of_numpy_and_tensorflow(dtype):
    for value in (np.dtype(dtype).type(7), np.array([7], dtype), tf.constant([7], dtype)):
        assert values_of(feature(value)) == ints(7)


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_all_float_dtypes_of_numpy_and_tensorflow(dtype):
    for value in (np.dtype(dtype).type(0.5), np.array([0.5], dtype), tf.constant([0.5], dtype)):
        assert values_of(feature(value)) == floats(0.5)


def test_float64_is_rounded_to_float32():
    expected = floats(0.10000000149011612)
    assert values_of(feature(0.1)) == values_of(feature(np.array([0.1]))) == expected
    assert values_of(feature(1e-60)) == floats(0.0)


def test_nan_is_kept():
    for value in (math.nan, [math.nan], np.array([math.nan])):
        (number,) = values_of(feature(value))[1]
        assert math.isnan(number)


def test_none_is_a_feature_that_parses_as_missing():
    serialized = example({"x": None}).SerializeToString()
    parsed = tf.io.parse_single_example(serialized, {"x": tf.io.FixedLenFeature([], tf.int64, 7)})
    assert parsed["x"] == 7


@pytest.mark.parametrize(
    ("value", "dtype"),
    [
        (np.arange(6, dtype=np.uint8).reshape(2, 3), tf.uint8),
        (np.eye(2), tf.float64),
        (np.empty((2, 0), np.int16), tf.int16),
        (np.array([["a", "ö"]]), tf.string),
        (np.array([[b"a", b"b\0"]], object), tf.string),
        (tf.reshape(tf.range(8), (2, 2, 2)), tf.int32),
        (tf.constant([["a"]]), tf.string),
        ([[1, 2], [3, 4]], tf.int64),
        ([[1, 2], [3, 0.5]], tf.float32),
        ([["a"], [b"b"]], tf.string),
        ([np.array([1, 2]), [3, 4]], tf.int64),
    ],
)
def test_nested_values_come_back_by_parse_tensor(value, dtype):
    serialized = example({"x": value}).SerializeToString()
    parsed = tf.io.parse_single_example(serialized, {"x": tf.io.FixedLenFeature([], tf.string)})
    tensor = tf.io.parse_tensor(parsed["x"], dtype)
    assert tensor.numpy().tolist() == tf.constant(value, dtype).numpy().tolist()


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (2**63, "9223372036854775808 is outside int64; make it a float, a str or bytes"),
        (10**400, "an int of 1329 bits is outside int64; make it a float, a str or bytes"),
        (np.uint64(2**63), "9223372036854775808 is outside int64; make it a float, a str or bytes"),
        (1e39, "1e+39 is beyond float32 (3.4e38); scale it, or give inf if that is meant"),
        (np.longdouble("-1e300"), "-1e+300 is beyond float32 (3.4e38); scale it, or give inf if "
                                  "that is meant"),
        ("\ud800", "'\\ud800' is not valid Unicode (surrogates not allowed)"),
        ({3, 1}, "a set has no order; pass sorted(...) of it"),
        (frozenset(), "a frozenset has no order; pass sorted(...) of it"),
        (Fraction(1, 2), f"type fractions.Fraction has no place in a feature; {CHOICES}"),
        ({"a": 1}, f"type dict has no place in a feature; {CHOICES}"),
        (1j, f"type complex has no place in a feature; {CHOICES}"),
        (DATES, f"dtype datetime64[D] has no place in a feature; {CHOICES}"),
        (DATES.reshape(1, 1), "TensorFlow has no tensor of dtype datetime64[D]; convert it"),
    ],
)  # fmt: skip
def test_values_without_a_place_are_named(value, message):
    assert error_of(value) == f"feature 'x': {message}"


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ([1, "a"], ": int at index 0 and str at index 1; a feature holds numbers or strings, "
                   "convert one"),
        (["a", "b", 0.5], ": str at index 0 and float at index 2; a feature holds numbers or "
                          "strings, convert one"),
        ([1, None], ", index 1: None in a list; leave it out, or make the whole feature None"),
        ([1, 2**63], ", index 1: 9223372036854775808 is outside int64; make it a float, a str or "
                     "bytes"),
        (np.array([1, 2**63], np.uint64), ", index 1: 9223372036854775808 is outside int64; make "
                                          "it a float, a str or bytes"),
        ([0.5, 1e39], ", index 1: 1e+39 is beyond float32 (3.4e38); scale it, or give inf if that "
                      "is meant"),
        ([[1, 2], [3, "a"]], ": int at index (0, 0) and str at index (1, 1); a feature holds "
                             "numbers or strings, convert one"),
        ([[1], [1e39]], ", index (1, 0): 1e+39 is beyond float32 (3.4e38); scale it, or give inf "
                        "if that is meant"),
        ([[1], [2, 3]], ": index 0 has shape (1,) and index 1 has (2,); nested lists must be "
                        "rectangular"),
        ([1, [2]], ": index 0 has shape () and index 1 has (1,); nested lists must be rectangular"),
        (tf.ragged.constant([[1], [2, 3]]), ": index 0 has shape (1,) and index 1 has (2,); nested "
                                            "lists must be rectangular"),
        ([], ": an empty list has no kind; say which (kind=, or kinds= of an Example), or give an "
             "empty array with a dtype"),
        ([[], []], ": an empty list has no kind; say which (kind=, or kinds= of an Example), or "
                   "give an empty array with a dtype"),
    ],
)  # fmt: skip
def test_lists_without_a_place_are_named_by_index(value, message):
    assert error_of(value) == f"feature 'x'{message}"


def test_tensors_without_a_value_are_named():
    sparse = tf.sparse.from_dense([[1]])
    assert error_of(sparse).endswith("SparseTensor has no value yet; only eager dense tensors "
                                     "have one")  # fmt: skip

    @tf.function
    def traced(tensor):
        assert "SymbolicTensor has no value yet; only eager dense" in error_of(tensor)
        return tensor

    traced(tf.constant(1))


@pytest.mark.parametrize(
    ("value", "kind", "expected"),
    [
        ([], FeatureKind.INT, ints()),
        ([], FeatureKind.FLOAT, floats()),
        ([], FeatureKind.BYTES, texts()),
        (np.array([]), FeatureKind.INT, ints()),
        (1, FeatureKind.FLOAT, floats(1.0)),
        ([1, 2], FeatureKind.FLOAT, floats(1.0, 2.0)),
        (None, FeatureKind.INT, None),
    ],
)
def test_a_kind_settles_what_the_value_leaves_open(value, kind, expected):
    assert values_of(feature(value, kind=kind)) == expected


@pytest.mark.parametrize(
    ("value", "kind", "message"),
    [
        (0.5, FeatureKind.INT, "FLOAT values, but the kind asked for is INT"),
        ("1", FeatureKind.INT, "BYTES values, but the kind asked for is INT"),
        (1, FeatureKind.BYTES, "INT values, but the kind asked for is BYTES"),
        (
            [[1]],
            FeatureKind.INT,
            "a nested value, which is serialized to BYTES, but the kind asked for is INT",
        ),
    ],
)
def test_a_kind_that_the_value_does_not_have_is_an_error(value, kind, message):
    assert error_of(value, kind=kind) == f"feature 'x': {message}"


def parsed_back(value, dtype):
    serialized = example({"x": value}, kinds=KINDS[dtype]).SerializeToString()
    features = {"x": tf.io.FixedLenSequenceFeature([], dtype, allow_missing=True)}
    return tf.io.parse_single_example(serialized, features)["x"].numpy().tolist()


KINDS = {
    tf.int64: {"x": FeatureKind.INT},
    tf.float32: {"x": FeatureKind.FLOAT},
    tf.string: {"x": FeatureKind.BYTES},
}


@given(st.lists(INT64))
def test_ints_round_trip(values):
    assert parsed_back(values, tf.int64) == values
    assert parsed_back(np.array(values, np.int64), tf.int64) == values


@given(st.lists(FLOAT32.filter(lambda number: number == number)))
def test_floats_round_trip(values):
    assert parsed_back(values, tf.float32) == values
    assert parsed_back(np.array(values, np.float32), tf.float32) == values


@given(st.lists(st.one_of(st.binary(), st.text())))
def test_strings_round_trip(values):
    expected = [value.encode() if isinstance(value, str) else value for value in values]
    assert parsed_back(values, tf.string) == expected


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_every_float_is_rounded_as_numpy_does_or_refused(value):
    with np.errstate(over="ignore"):
        rounded = np.float32(value)
    if np.isinf(rounded):
        assert "is beyond float32" in error_of(value)
    else:
        assert values_of(feature(value)) == floats(float(rounded))


@given(st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(), st.binary()),
    lambda children: st.lists(children, max_size=3), max_leaves=6,
))  # fmt: skip
def test_any_value_gives_a_feature_or_one_line(value):
    try:
        outcome = feature(value, name="x")
    except DataError as error:
        outcome = str(error)
    if isinstance(outcome, str):
        assert outcome.startswith("feature 'x'")
        assert "\n" not in outcome
    else:
        assert (values_of(outcome) is None) == (value is None)


def test_a_whole_row_is_what_a_model_parses():
    row = example({"fare": 12.5, "company": "Top Cab", "stops": [1, 2], "photo": np.eye(2)})
    assert isinstance(row, tf.train.Example)
    parsed = tf.io.parse_single_example(
        row.SerializeToString(),
        {
            "fare": tf.io.FixedLenFeature([], tf.float32),
            "company": tf.io.FixedLenFeature([], tf.string),
            "stops": tf.io.FixedLenFeature([2], tf.int64),
            "photo": tf.io.FixedLenFeature([], tf.string),
        },
    )
    assert parsed["fare"] == 12.5
    assert parsed["company"] == b"Top Cab"
    assert parsed["stops"].numpy().tolist() == [1, 2]
    assert tf.io.parse_tensor(parsed["photo"], tf.float64).numpy().tolist() == [[1, 0], [0, 1]]


def test_an_error_names_the_feature():
    with pytest.raises(DataError, match=r"^feature 'when': type datetime\.date has no place"):
        example({"fare": 1.0, "when": datetime.date(2026, 11, 21)})
    with pytest.raises(DataError, match=r"^feature name 7 is of type int, expected str$"):
        example({7: 1.0})


def test_a_sequence_is_what_a_model_parses():
    sequence = sequence_example(
        {"user": "ada"}, {"item": [[1], [2, 3], []], "price": np.array([0.5, 1, 2])}
    )
    context, steps = tf.io.parse_single_sequence_example(
        sequence.SerializeToString(),
        {"user": tf.io.FixedLenFeature([], tf.string)},
        {
            "item": tf.io.RaggedFeature(tf.int64),
            "price": tf.io.FixedLenSequenceFeature([], tf.float32),
        },
    )
    assert context["user"] == b"ada"
    assert steps["item"].to_list() == [[1], [2, 3], []]
    assert steps["price"].numpy().tolist() == [0.5, 1.0, 2.0]


@pytest.mark.parametrize(
    ("steps", "expected"),
    [
        ([1, 0.5], [floats(1.0), floats(0.5)]),
        ([[], [1]], [ints(), ints(1)]),
        ([np.array([]), [1]], [ints(), ints(1)]),
        (["a", "b"], [texts(b"a"), texts(b"b")]),
        (np.array([[1, 2], [3, 4]]), [ints(1, 2), ints(3, 4)]),
        (tf.constant([[0.5]]), [floats(0.5)]),
        ([], []),
        (None, []),
    ],
)
def test_the_steps_of_a_feature_list_are_of_one_kind(steps, expected):
    feature_list = sequence_example({}, {"s": steps}).feature_lists.feature_list["s"]
    assert [values_of(step) for step in feature_list.feature] == expected


def test_images_as_steps_are_serialized():
    images = np.zeros((3, 8, 8), np.uint8)
    feature_list = sequence_example({}, {"s": images}).feature_lists.feature_list["s"]
    (value,) = values_of(feature_list.feature[2])[1]
    assert tf.io.parse_tensor(value, tf.uint8).shape == (8, 8)


@pytest.mark.parametrize(
    ("steps", "message"),
    [
        ("abc", "feature list 's': type str, expected a list, tuple or array whose first dimension "
                "is the steps"),
        (7, "feature list 's': type int, expected a list, tuple or array whose first dimension is "
            "the steps"),
        ([1, None], "feature list 's': step 1 is None; parsers need a value at each step, give an "
                    "empty list where there is none"),
        ([[1], [], ["a"]], "feature list 's': INT at step 0 and BYTES at step 2; all steps must be "
                           "of one kind"),
        ([1, 2**63], "feature 's[1]': 9223372036854775808 is outside int64; make it a float, a str "
                     "or bytes"),
        ([[]], "feature 's[0]': an empty list has no kind; say which (kind=, or kinds= of an "
               "Example), or give an empty array with a dtype"),
    ],
)  # fmt: skip
def test_feature_lists_without_a_place_are_named_by_step(steps, message):
    with pytest.raises(DataError) as caught:
        sequence_example({}, {"s": steps})
    assert str(caught.value) == message
