import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.components.tfrecord.example_proto import (
    is_example,
    parse_example,
)
from penstock.components.tfrecord.records import read_records


def tf_example():
    import tensorflow as tf

    features = {
        "i": tf.train.Feature(int64_list=tf.train.Int64List(value=[-1, 2**63 - 1])),
        "f": tf.train.Feature(float_list=tf.train.FloatList(value=[0.5])),
        "b": tf.train.Feature(bytes_list=tf.train.BytesList(value=[b"x", b""])),
        "none": tf.train.Feature(),
    }
    return tf.train.Example(features=tf.train.Features(feature=features))


def test_reads_tensorflows_example():
    message = parse_example(tf_example().SerializeToString())
    feature = message.context.feature
    assert list(feature["i"].int64_list.value) == [-1, 2**63 - 1]
    assert list(feature["f"].float_list.value) == [0.5]
    assert list(feature["b"].bytes_list.value) == [b"x", b""]
    assert feature["none"].WhichOneof("kind") is None
    assert not message.feature_lists.feature_list


@pytest.mark.parametrize("check", [is_example, parse_example])
@pytest.mark.parametrize("folder", ["tfrecord", "tfrecord_sequence"])
def test_every_real_record_is_an_example(tfx_data, folder, check):
    for file in (tfx_data / folder).iterdir():
        assert all(check(record.payload) for record in read_records(file))


# An Example with two Features messages, and one with an unknown field: both are legal.
TWICE = b"\x0a\x07\x0a\x05\x0a\x01a\x12\x00" + b"\x0a\x07\x0a\x05\x0a\x01b\x12\x00"
UNKNOWN_FIELD = b"\x0a\x07\x0a\x05\x0a\x01a\x12\x00" + b"\x18\x01"
# A valid Example, followed by the end of a group that never began.
END_OF_GROUP = b"\x0a\x07\x0a\x05\x0a\x01a\x12\x00" + b"\x6c\x00"
ONLY_LISTS = b"\x12\x07\x0a\x05\x0a\x01a\x12\x00"


UNUSUAL = (b"", b"\x0a\x00", b"\x0a\x00\x12\x00", TWICE, UNKNOWN_FIELD, ONLY_LISTS)
OTHER = (b"hello world", b"\x89PNG\r\n\x1a\n", b"\x00" * 20, b'{"id": 1}',
         b"\x0a\xff\xff\xff\xff\x0f", END_OF_GROUP)  # fmt: skip


@pytest.mark.parametrize("payload", UNUSUAL + OTHER)
def test_unusual_examples_are_examples_and_other_bytes_are_not(payload):
    assert is_example(payload) == (payload in UNUSUAL)
    assert (parse_example(payload) is not None) == (payload in UNUSUAL)


@given(st.binary(max_size=40))
def test_the_quick_check_refuses_no_example(payload):
    if parse_example(payload) is not None:
        assert is_example(payload)


def test_reading_takes_no_tensorflow():
    code = (
        "import sys, penstock.components.doctor.inspect, penstock.components.doctor.verify; "
        "print('tensorflow' in sys.modules)"
    )
    output = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True)
    assert output.stdout == b"False\n"
