"""Decodes images for a served classifier in the same way as in training."""

from collections.abc import Mapping, Sequence
from functools import partial

import keras
import tensorflow as tf

from penstock.components import image_features as names
from penstock.components.trainer.export import Prepare, Signature
from penstock.components.trainer.input.image_decode import StoredImages, decode_whole
from penstock.components.trainer.input.images import IMAGE
from penstock.components.trainer.input.options import ImageInputOptions
from penstock.components.trainer.serving import Served, named


def decode_features(stored: StoredImages, options: ImageInputOptions) -> Prepare:
    """Returns a function from parsed features to the model's inputs, for `export_model(prepare=)`.

    Its input is the image as it is stored: raw pixels of varying size with their height and width.
    Its output is that of the training input: `{"image": [batch, height, width, channels]}`.
    """

    def prepare(features: Mapping[str, tf.Tensor]) -> dict[str, tf.Tensor]:
        columns = {name: tf.reshape(features[name], [-1]) for name in stored.spec}
        return {IMAGE: _decoded(columns, stored, options)}

    return prepare


def serve_images(
    model: keras.Model, options: ImageInputOptions, class_texts: Sequence[str]
) -> Signature:
    """Returns a signature that takes encoded image files.

    Input: `encoded`, string [N], each a JPEG or PNG. Output: `probabilities`, float32 [N, classes];
    `label`, int64 [N], the most probable class; and `text`, string [N], its name.

    Args:
        model: Model that returns probabilities [N, classes].
        options: Options of the training input.
        class_texts: Names of the classes, in the order of their numbers.
    """

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string, "encoded")], autograph=False)
    def serve(encoded: tf.Tensor) -> dict[str, tf.Tensor]:
        images = _decoded({names.ENCODED: encoded}, StoredImages(), options)
        probabilities = model({IMAGE: images}, training=False)
        return named(tf.cast(probabilities, tf.float32), Served(classes=tuple(class_texts)))

    return serve


def _decoded(
    columns: Mapping[str, tf.Tensor], stored: StoredImages, options: ImageInputOptions
) -> tf.Tensor:
    decode = partial(decode_whole, stored=stored, options=options)
    size = [options.height, options.width, options.channels]
    return tf.map_fn(decode, columns, fn_output_signature=tf.TensorSpec(size, tf.uint8))
