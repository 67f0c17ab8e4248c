"""Functions that write records and small models, for TFMA and for evaluation in batches."""

import os

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import numpy as np
import pytest
import tensorflow as tf
from row_files import example
from tensorflow_model_analysis import default_eval_shared_model
from tensorflow_model_analysis.utils import config_util


def values(value):
    found = value if isinstance(value, list) else [value]
    return [one.encode() if isinstance(one, str) else one for one in found]


@pytest.fixture(scope="session")
def write_examples():
    """A function that writes rows, as dicts, to two TFRecord files, one plain and one GZIP."""

    def write(folder, rows):
        folder.mkdir(parents=True)
        for name, part in (("a.tfrecord", rows[::2]), ("b.tfrecord.gz", rows[1::2])):
            packed = "GZIP" if name.endswith("gz") else ""
            with tf.io.TFRecordWriter(str(folder / name), packed) as file:
                for row in part:
                    known = {k: values(v) for k, v in row.items() if v is not None}
                    file.write(example(**known))
        return folder

    return write


@pytest.fixture(scope="session")
def save_model():
    """A function that saves a model with functions as signatures.

    A function without an `input_signature` gets Examples parsed by `parse`.
    """

    def save(path, parse, **signatures):
        spec = {name: tf.io.FixedLenFeature([], *of) for name, of in parse.items()}

        def of_examples(function):
            @tf.function(input_signature=[tf.TensorSpec([None], tf.string, "examples")])
            def call(examples):
                return function(tf.io.parse_example(examples, spec))

            return call

        module = tf.Module()
        calls = {
            name: function if hasattr(function, "input_signature") else of_examples(function)
            for name, function in signatures.items()
        }
        tf.saved_model.save(module, str(path), signatures=calls)
        return path

    return save


@pytest.fixture(scope="session")
def shared_models():
    """A function that gives config and models the form that TFMA gets from TFX's Evaluator."""

    def share(config, *paths):
        config = config_util.update_eval_config_with_defaults(
            config, has_baseline=len(paths) > 1, rubber_stamp=True
        )
        pairs = zip(config.model_specs, paths, strict=True)
        models = [
            default_eval_shared_model(str(path), model_name=spec.name, eval_config=config)
            for spec, path in pairs
        ]
        return config, models

    return share


@pytest.fixture(scope="session")
def random():
    return np.random.default_rng(7)
