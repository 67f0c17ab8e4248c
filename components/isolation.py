"""Keeps a user's function apart from the operation that produces its inputs, in any graph.

TensorFlow 2.16 and 2.21 optimise graphs wrongly: if two outputs of one operation (`parse_example`,
`split`, an iterator's batch) each pass through a monotonic function into `reduce_max` or
`reduce_min`, both get the result of the first. docs/upstream.md reproduces it.
"""

from collections.abc import Callable
from typing import Any


def isolated(function: Callable[..., Any], *, autograph: bool = False) -> Callable[..., Any]:
    """Returns `function` as a graph of its own, which no optimiser merges into its caller's.

    Inside, each tensor is an argument, an operation by itself, so the fault has no two outputs to
    mix up. `_noinline` keeps it so in eager calls, in tf.data, and in saved models that run in a
    session, as TensorFlow Serving does. Costs one function call per batch.

    Args:
        function: Takes and returns tensors, in dictionaries or not.
        autograph: Whether `function` may branch on tensors by Python's `if`; tracing takes longer.
    """
    import tensorflow as tf

    return tf.function(function, autograph=autograph, experimental_attributes={"_noinline": True})
