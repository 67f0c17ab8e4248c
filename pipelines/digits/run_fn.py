"""What the Trainer runs: shards of images in, a SavedModel that takes encoded images out."""

from collections.abc import Mapping
from typing import Any

import keras
import tensorflow as tf
import tensorflow_transform as tft
from tfx.components.trainer.fn_args_utils import FnArgs

from penstock import (
    AugmentOptions,
    DataError,
    ImageInputOptions,
    LabelFn,
    TrackOptions,
    TrainOptions,
    TransformGraph,
    augment_in_input,
    decode_features,
    eval_image_input_fn,
    export,
    from_mapping,
    image_features,
    image_input_facts,
    resume_dir,
    serve_images,
    stored_images,
    train,
    train_image_input_fn,
)
from penstock.pipelines.digits import features
from penstock.pipelines.digits.config import ModelOptions
from penstock.pipelines.digits.model import build_model

# Numbers that no class has cost an output each; labels like 20261121 are no numbers of classes.
_MOST_UNUSED = 1000


def run_fn(fn_args: FnArgs) -> None:
    """Train and export.

    Args:
        fn_args: From TFX; `custom_config` has the options as `pipeline.py` puts them there, and
            the files are those of the ExampleGen: images are not transformed.
    """
    config: Mapping[str, Any] = fn_args.custom_config
    images = from_mapping(ImageInputOptions, config["input"])
    augment = from_mapping(AugmentOptions, config["augment"])
    model = from_mapping(ModelOptions, config["model"])
    transform = tft.TFTransformOutput(fn_args.transform_graph_path)
    texts = class_texts(transform)
    to_label = _label_fn(transform)
    if images.seed is not None:
        keras.utils.set_random_seed(images.seed)
    # Who is told of a training changes nothing in it: it may change between a run and the next.
    training = {name: value for name, value in config.items() if name != "track"}
    in_input = None
    if augment.is_any and augment.place == "input":
        in_input = augment_in_input(augment, seed=images.seed, channels=images.channels)
    trained = train(
        lambda: build_model(model, images=images, augment=augment, classes=len(texts)),
        train_image_input_fn(
            fn_args.train_files, options=images, label_fn=to_label, augment=in_input
        ),
        eval_image_input_fn(fn_args.eval_files, options=images, label_fn=to_label),
        options=from_mapping(TrainOptions, config["train"]),
        model_run_dir=fn_args.model_run_dir,
        resume_dir=resume_dir(fn_args.model_run_dir, [fn_args.train_files, training]),
        input_facts=image_input_facts(fn_args.train_files, options=images),
        track=from_mapping(TrackOptions, config["track"]),
        params=training,
    )
    export(
        trained.model,
        fn_args.serving_model_dir,
        label=image_features.LABEL,
        transform=transform,
        prepare=decode_features(stored_images(fn_args.train_files), images),
        signatures={"serve_images": serve_images(trained.model, images, texts)},
    )
    trained.discard_checkpoints()


def class_texts(transform: tft.TFTransformOutput) -> list[str]:
    """The words for each class by its number; empty where no class has the number.

    Raises:
        DataError: A number is below 0, or two classes have the same.
    """
    entries = transform.vocabulary_by_name(features.CLASSES)
    by_number: dict[int, str] = {}
    for entry in sorted(entries):
        number, _, text = entry.decode().partition("\t")
        if int(number) in by_number:
            raise DataError(
                f"class {number} is called {by_number[int(number)]!r} and {text!r}; "
                "correct the labels"
            )
        by_number[int(number)] = text
    if not 0 <= min(by_number) <= max(by_number) < len(by_number) + _MOST_UNUSED:
        raise DataError(
            f"the {len(by_number)} classes have numbers from {min(by_number)} to "
            f"{max(by_number)}; number them from 0 on"
        )
    return [by_number.get(number, "") for number in range(max(by_number) + 1)]


def _label_fn(transform: tft.TFTransformOutput) -> LabelFn:
    """Raw labels, int64 [batch], to those that `preprocessing_fn` makes of them."""
    graph = TransformGraph(transform)
    is_dense = isinstance(transform.raw_feature_spec()[image_features.LABEL], tf.io.FixedLenFeature)

    def to_label(raw: tf.Tensor) -> tf.Tensor:
        column = tf.reshape(raw, [-1, 1])
        if not is_dense:
            rows = tf.range(tf.size(raw, out_type=tf.int64))
            places = tf.stack([rows, tf.zeros_like(rows)], axis=1)
            column = tf.SparseTensor(places, raw, tf.shape(column, out_type=tf.int64))
        return graph({image_features.LABEL: column})[features.LABEL_XF]

    return to_label
