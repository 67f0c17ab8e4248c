"""The file that tf.data could not read: its own errors name none."""

from collections.abc import Callable
from functools import wraps
from typing import Concatenate, ParamSpec

import tensorflow as tf

from penstock.components.tfrecord.sharding import split_dir
from penstock.components.tfrecord.unlisted import find_damage
from penstock.components.trainer.input.files import InputSource

_SOURCE = "penstock_source"

P = ParamSpec("P")


def keeps_source(
    input_fn: Callable[Concatenate[InputSource, P], tf.data.Dataset],
) -> Callable[Concatenate[InputSource, P], tf.data.Dataset]:
    """An `input_fn` whose data sets know what they read, for `damage_in`.

    None of the inputs branches on a tensor in Python, so AutoGraph, which would translate the
    functions that they map, is off: half a second of CPU in each training. A user's may.
    """
    untranslated = tf.autograph.experimental.do_not_convert(input_fn)

    @wraps(input_fn)
    def kept(source: InputSource, *args: P.args, **kwargs: P.kwargs) -> tf.data.Dataset:
        is_ours = not any(callable(argument) for argument in kwargs.values())
        dataset = (untranslated if is_ours else input_fn)(source, *args, **kwargs)
        setattr(dataset, _SOURCE, source)
        return dataset

    return kept


def damage_in(*datasets: tf.data.Dataset | None) -> str | None:
    """The first fault in the local files that data sets read, by file, record and offset.

    Reads every byte; for after a failure. None where nothing is found, or nothing is known of
    the data sets.
    """
    for dataset in datasets:
        source = getattr(dataset, _SOURCE, ())
        patterns = source if isinstance(source, list | tuple) else [f"{source}/{split_dir('*')}/*"]
        files = sorted({file for pattern in patterns for file in tf.io.gfile.glob(str(pattern))})
        local = (file for file in files if "://" not in file)
        if damage := find_damage(local):
            return damage
    return None
