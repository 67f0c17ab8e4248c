"""The `run_fn` of images: trains on shards of images, exports a SavedModel for encoded images.

Transform runs `image_classes`, which does not decode the images, because decoded images take many
times the space of encoded ones.
"""

from functools import partial

import tensorflow as tf
import tensorflow_transform as tft
from tfx.components.trainer.fn_args_utils import FnArgs

from penstock.components import image_features as names
from penstock.components.errors import DataError
from penstock.components.trainer.export import TransformGraph, export_model
from penstock.components.trainer.input.images import IMAGE, LabelFn
from penstock.components.trainer.input.input import Input
from penstock.components.trainer.input.options import ImageInputOptions, InputOptions
from penstock.components.trainer.served_columns import SERVE_IMAGES
from penstock.components.trainer.serving import decode_features, serve_images
from penstock.components.trainer.workers import join_workers
from penstock.pipelines.blocks.facts import BuildModel, LabelFacts, ModelFacts, label_facts
from penstock.pipelines.blocks.preprocessing import CLASSES
from penstock.pipelines.blocks.target import Target
from penstock.pipelines.blocks.training import train_and_compare
from penstock.pipelines.blocks.training_options import read_options

# Limit on unused class numbers, each of which costs an output of the model. Labels such as
# 20261121, which are not class numbers, would leave more numbers unused.
_MOST_UNUSED = 1000


def train_images(
    fn_args: FnArgs,
    build_model: BuildModel,
    *,
    image: str = names.ENCODED,
    label: str = names.LABEL,
) -> None:
    """Trains a model, compares it with the best constant, and exports it.

    In addition to the signatures of `export_model`, the SavedModel has `serve_images` for encoded
    images.

    Args:
        fn_args: Arguments from TFX, with the `training_options` in `custom_config`; the files are
            those of the ExampleGen, because images are not transformed.
        build_model: Function that returns a compiled model from the `ModelFacts` and the config's
            `model`, such as `image_model`.
        image: Name of the image feature, as in `image_classes`.
        label: Name of the feature with the class, as in `image_classes`.

    Raises:
        DataError: The model does not beat the config's `must_beat`, the numbers or names of the
            classes are wrong, or `train` or `export_model` raised it.
        UsageError: The config's `callbacks` or `evaluation.decide` cannot be used, or `train` or
            `export_model` raised it.
    """
    join_workers()
    options = read_options(fn_args.custom_config, fn_args.hyperparameters)
    images: ImageInputOptions = options.input
    transform = tft.TFTransformOutput(fn_args.transform_graph_path)
    texts = class_texts(transform)
    target = Target(label, "classes", tuple(texts))
    to_label = _label_fn(transform, target)
    open_input = partial(Input.images, options=images, image=image, label=label, label_fn=to_label)
    train_data = open_input(fn_args.train_files)
    inputs = {IMAGE: (images.height, images.width, images.channels)}

    def labels() -> dict[str, LabelFacts]:
        return {target.label: label_facts(_labels(fn_args, to_label, label), target)}

    facts = ModelFacts((target,), inputs, images.seed, labels)
    result = train_and_compare(
        fn_args,
        [target],
        options,
        lambda: build_model(facts, options.model),
        train_data,
        open_input(fn_args.eval_files),
    )
    if result is None:
        return
    trained, _ = result
    export_model(
        trained.model,
        fn_args.serving_model_dir,
        label=label,
        transform=transform,
        prepare=decode_features(train_data.stored(), images),
        signatures={SERVE_IMAGES: serve_images(trained.model, images, texts)},
    )
    trained.discard_checkpoints()


def _labels(fn_args: FnArgs, to_label: LabelFn, label: str) -> tf.data.Dataset:
    spec = {label: tf.io.FixedLenFeature([], tf.int64)}
    options = InputOptions(batch_size=1024)
    rows = Input.rows(fn_args.train_files, spec, options=options)
    return rows.eval().map(lambda row: to_label(row[label]))


def class_texts(transform: tft.TFTransformOutput) -> list[str]:
    """Returns the names of the classes, by number; a number without a class has an empty name."""
    by_number: dict[int, str] = {}
    entries = transform.vocabulary_by_name(CLASSES)
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


def _label_fn(transform: tft.TFTransformOutput, target: Target) -> LabelFn:
    graph = TransformGraph(transform)
    is_dense = isinstance(transform.raw_feature_spec()[target.name], tf.io.FixedLenFeature)

    def to_label(raw: tf.Tensor) -> tf.Tensor:
        column = tf.reshape(raw, [-1, 1])
        if not is_dense:
            rows = tf.range(tf.size(raw, out_type=tf.int64))
            places = tf.stack([rows, tf.zeros_like(rows)], axis=1)
            column = tf.SparseTensor(places, raw, tf.shape(column, out_type=tf.int64))
        return graph({target.name: column})[target.label]

    return to_label
