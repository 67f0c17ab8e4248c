"""What the Trainer runs: transformed trips in, a SavedModel that takes raw ones out."""

from collections.abc import Mapping
from typing import Any

import keras
import tensorflow as tf
import tensorflow_transform as tft
from tfx.components.trainer.fn_args_utils import FnArgs

from penstock import (
    InputFacts,
    InputOptions,
    TrackOptions,
    TrainOptions,
    eval_input_fn,
    export,
    feature_spec,
    from_mapping,
    input_facts,
    packed_eval_input_fn,
    packed_input_facts,
    packed_train_input_fn,
    resume_dir,
    train,
    train_input_fn,
)
from penstock.pipelines.taxi import features
from penstock.pipelines.taxi.model import build_model


def run_fn(fn_args: FnArgs) -> None:
    """Train and export.

    Args:
        fn_args: From TFX; `custom_config` has the options as `pipeline.py` puts them there.
    """
    config: Mapping[str, Any] = fn_args.custom_config
    reading = from_mapping(InputOptions, config["input"])
    transform = tft.TFTransformOutput(fn_args.transform_graph_path)
    if reading.seed is not None:
        keras.utils.set_random_seed(reading.seed)
    # Who is told of a training changes nothing in it: it may change between a run and the next.
    training = {name: value for name, value in config.items() if name != "track"}
    train_data, eval_data, facts = _data(fn_args, transform, reading)
    trained = train(
        lambda: build_model(**config["model"]),
        train_data,
        eval_data,
        options=from_mapping(TrainOptions, config["train"]),
        model_run_dir=fn_args.model_run_dir,
        resume_dir=resume_dir(fn_args.model_run_dir, [fn_args.train_files, training]),
        input_facts=facts,
        track=from_mapping(TrackOptions, config["track"]),
        params=training,
    )
    export(trained.model, fn_args.serving_model_dir, label=features.TIPS, transform=transform)
    trained.discard_checkpoints()


def _data(
    fn_args: FnArgs, transform: tft.TFTransformOutput, reading: InputOptions
) -> tuple[tf.data.Dataset, tf.data.Dataset, InputFacts]:
    """Data of training and evaluation, and the facts of it; packed where the pipeline packs."""
    train_files, eval_files, label = fn_args.train_files, fn_args.eval_files, features.LABEL_XF
    if fn_args.custom_config["pack"]:
        return (
            packed_train_input_fn(train_files, label=label, options=reading),
            packed_eval_input_fn(eval_files, label=label, options=reading),
            packed_input_facts(train_files, options=reading),
        )
    spec = feature_spec(transform.transformed_metadata.schema)
    return (
        train_input_fn(train_files, spec, label=label, options=reading),
        eval_input_fn(eval_files, spec, label=label, options=reading),
        input_facts(train_files, spec, options=reading),
    )
