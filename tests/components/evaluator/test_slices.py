import numpy as np
import pyarrow as pa
from google.protobuf import text_format
from tensorflow_model_analysis.proto import config_pb2

from penstock.components.evaluator.slices import Slicer, values_of_lists, values_of_tensor


def slicer(*specs):
    text = " ".join(f"slicing_specs {{{spec}}}" for spec in specs)
    return Slicer(text_format.Parse(text, config_pb2.EvalConfig()))


def members(of, rows, **columns):
    """Slice keys of each row."""
    found = [set() for _ in range(rows)]
    for row, number in zip(*of.members(rows, columns.get), strict=True):
        assert of.keys[number] not in found[row]
        found[row].add(of.keys[number])
    return found


TOWN = pa.array([[b"oslo"], None, [b"rome"], [b"oslo", b"rome"]])
HOUR = pa.array([[1], [2], [], [1]])


def test_rows_with_no_or_several_values_are_in_their_slices():
    of = slicer("", 'feature_keys: "town"', 'feature_keys: ["town", "hour"]')
    found = members(of, 4, town=values_of_lists(TOWN), hour=values_of_lists(HOUR))
    oslo, rome, one = ("town", "oslo"), ("town", "rome"), ("hour", 1)
    assert found == [
        {(), (oslo,), (one, oslo)},
        {()},
        {(), (rome,)},
        {(), (oslo,), (rome,), (one, oslo), (one, rome)},
    ]


def test_slice_of_two_specs_has_each_row_once():
    of = slicer('feature_keys: "hour"', 'feature_values {key: "hour" value: "1"}')
    assert members(of, 4, hour=values_of_lists(HOUR)) == [
        {(("hour", 1),)}, {(("hour", 2),)}, set(), {(("hour", 1),)},
    ]  # fmt: skip


def test_slice_numbers_over_batches_continue_without_a_column():
    of = slicer('feature_keys: "hour"')
    assert members(of, 2) == [set(), set()]
    assert members(of, 1, hour=values_of_tensor(np.array([[2]]))) == [{(("hour", 2),)}]
    both = values_of_tensor(np.array([[1, 2], [2, 1], [1, 1]]))
    assert members(of, 3, hour=both)[2] == {(("hour", 1),)}
    assert of.keys == [(("hour", 2),), (("hour", 1),)]


def test_text_ending_in_a_zero_byte_keeps_it():
    of = slicer('feature_keys: "town"')
    assert members(of, 1, town=values_of_lists(pa.array([[b"a\0"]]))) == [{(("town", "a\0"),)}]


def test_nan_is_one_slice_however_often_it_occurs():
    of = slicer('feature_keys: "x"')
    for _ in range(2):
        members(of, 3, x=values_of_tensor(np.array([np.nan, 1.0, np.nan])))
    assert [str(key) for key in of.keys] == ["(('x', nan),)", "(('x', 1.0),)"]
