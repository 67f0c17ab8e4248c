"""Separates a user's function from the operations that produce its inputs, in any graph.

TensorFlow 2.16 and 2.21 optimise some graphs wrongly: `reduce_max` or `reduce_min` of a monotonic
function of a tensor reads the first output of the operation that made the tensor, even if the
tensor is another output. `parse_example`, `split`, a function call and an iterator's batch are
operations with several outputs. docs/upstream.md has code that shows the fault.
"""

from collections.abc import Callable
from typing import Any


def isolated(function: Callable[..., Any]) -> Callable[..., Any]:
    """Returns `function` with each tensor first passed through an operation with one output.

    The operation is the `ensure_shape` in `apart`, which asserts nothing. TensorFlow's optimiser
    neither removes it nor looks through it. This holds in eager calls, in tf.data, in a session (as
    in TensorFlow Serving), and in a frozen graph whose functions were inlined (as in TensorRT). The
    operation takes microseconds per batch.

    Args:
        function: Function of tensors (dense, sparse or ragged), which may be in dictionaries.
    """

    def called(*inputs: Any) -> Any:
        return function(*apart(inputs))

    return called


def apart(tensors: Any) -> Any:
    """Returns a structure of tensors, each of which is the only output of an operation."""
    import tensorflow as tf

    return tf.nest.map_structure(
        lambda tensor: tf.ensure_shape(tensor, tensor.shape), tensors, expand_composites=True
    )
