"""How `Steps` measures the steps of a training."""

import time
from collections.abc import Callable
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from penstock.components.trainer.steps import Steps


def test_a_wait_for_a_batch_ends_before_its_step_begins() -> None:
    begun: list[float] = []

    def note_begin_and_sleep(seconds: tf.Tensor) -> None:
        begun.append(time.time())
        time.sleep(float(seconds))

    model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(1)])
    model.compile(loss="mse")
    train_step = model.train_step
    model.train_step = lambda batch: train_step(_after(note_begin_and_sleep, 0.01, batch))
    batches = tf.data.Dataset.from_tensors((tf.zeros([2, 4]), tf.zeros([2, 1]))).repeat()
    # A batch takes longer than a step, so that each step waits for its batch.
    batches = batches.map(lambda *batch: _after(lambda s: time.sleep(float(s)), 0.02, batch))
    steps = Steps(
        model, batches.prefetch(1), None, strategy=tf.distribute.get_strategy(), xla=False
    )

    _, marks, waits = (part.numpy() for part in steps._train(steps._batches, tf.constant(10)))

    assert ((marks[:-1] + waits) <= np.array(begun) + 1e-6).all()


def _after(function: Callable[[tf.Tensor], None], seconds: float, batch: Any) -> Any:
    with tf.control_dependencies([tf.py_function(function, [seconds], [])]):
        return tf.nest.map_structure(tf.identity, batch)
