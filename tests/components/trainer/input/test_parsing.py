import pytest
import tensorflow as tf
from row_files import example, sequence_example

from penstock.components.trainer.input.parsing import parser

RAGGED, STEPS = tf.io.RaggedFeature, tf.io.FixedLenSequenceFeature


def examples(*rows):
    """Serialised Examples of `words` and `ids`."""
    return [example(words=words or None, ids=ids or None) for words, ids in rows]


def sequences(*rows):
    """Serialised SequenceExamples: `ids` in the context, `baskets` and `at` as feature lists."""
    return [sequence_example({"ids": ids}, baskets=steps, at=at) for ids, steps, at in rows]


def parsed(records, spec, lists=None, batch=2):
    """The batches that a dataset makes from the records, and their static shapes."""
    batches = tf.data.Dataset.from_tensor_slices(records).batch(batch, drop_remainder=True)
    batches = batches.map(parser(spec, lists))
    shapes = {name: value.shape.as_list() for name, value in batches.element_spec.items()}
    return shapes, [{k: v.numpy().tolist() for k, v in one.items()} for one in batches]


def test_lists_are_padded_to_the_longest_of_a_batch():
    shapes, batches = parsed(
        examples(([b"a"], [1, 2]), ([], [3]), ([], []), ([], [])),
        {"words": RAGGED(tf.string), "ids": STEPS([], tf.int64, True, -1)},
    )
    assert shapes == {"words": [2, None], "ids": [2, None]}
    assert batches == [
        {"words": [[b"a"], [b""]], "ids": [[1, 2], [3, -1]]},
        {"words": [[b""], [b""]], "ids": [[-1], [-1]]},
    ]


def test_the_lengths_of_a_ragged_feature_may_be_in_another():
    row = example(**{"x$ragged_values": [1, 2, 3], "x$row_lengths_1": [2, 1]})
    kind = RAGGED(tf.int64, "x$ragged_values", [RAGGED.RowLengths("x$row_lengths_1")])
    shapes, batches = parsed([row], {"x": kind}, batch=1)
    assert (shapes, batches) == ({"x": [1, None, None]}, [{"x": [[[1, 2], [3, 0]]]}])


def test_context_and_steps_of_sequence_examples_are_padded():
    shapes, batches = parsed(
        sequences(
            ([1], [[1, 2], [3]], [[0.5, 1.0], [2.0, 3.0]]),
            ([4, 5], [[6]], [[7.0, 8.0]]),
            ([], [], []),
            ([], [], []),
        ),
        {"ids": RAGGED(tf.int64)},
        {"baskets": RAGGED(tf.int64), "at": STEPS([2], tf.float32, allow_missing=True)},
    )
    assert shapes == {"ids": [2, None], "baskets": [2, None, None], "at": [2, None, 2]}
    assert batches == [
        {
            "ids": [[1, 0], [4, 5]],
            "baskets": [[[1, 2], [3, 0]], [[6, 0], [0, 0]]],
            "at": [[[0.5, 1.0], [2.0, 3.0]], [[7.0, 8.0], [0.0, 0.0]]],
        },
        {"ids": [[0], [0]], "baskets": [[[0]], [[0]]], "at": [[[0.0, 0.0]], [[0.0, 0.0]]]},
    ]


def test_a_step_of_another_width_is_named():
    records = sequences(([], [], [[1.0, 2.0, 3.0], [4.0]]))
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"Key: at, Index: 0\. .*size: 3"):
        parser({}, {"at": STEPS([2], tf.float32)})(records)
