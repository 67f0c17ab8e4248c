"""Decoding in a served image classifier, the same as in training."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial

import keras
import tensorflow as tf

from penstock.components.trainer.export import Prepare, Signature
from penstock.components.trainer.input.image_decode import (
    StoredImages,
    decode_encoded,
    decode_whole,
)
from penstock.components.trainer.input.image_options import ImageInputOptions
from penstock.components.trainer.input.images import IMAGE


def decode_features(stored: StoredImages, options: ImageInputOptions) -> Prepare:
    """A function of parsed features to the model's, for `export(prepare=...)`.

    It takes the image and, of raw pixels, height and width, each of one value an image; it
    gives `{"image": uint8 [batch, height, width, channels]}`.
    """
    decode = partial(decode_whole, stored=stored, options=options)

    def prepare(features: Mapping[str, tf.Tensor]) -> dict[str, tf.Tensor]:
        columns = {name: tf.reshape(features[name], [-1]) for name in stored.spec}
        return {IMAGE: _each(decode, columns, options)}

    return prepare


def serve_images(
    model: keras.Model, options: ImageInputOptions, class_texts: Sequence[str]
) -> Signature:
    """A signature that takes images as the files have them.

    In: `encoded`, string [N], each a JPEG or PNG. Out: `probabilities` float32 [N, classes],
    `label` int64 [N], the most probable class, and `text` string [N], that class in words.

    Args:
        model: Gives probabilities, [N, classes].
        options: What it was trained with.
        class_texts: The words for each class, by its number.
    """
    decode = partial(decode_encoded, options=options)

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string, "encoded")], autograph=False)
    def serve(encoded: tf.Tensor) -> dict[str, tf.Tensor]:
        images = _each(decode, encoded, options)
        probabilities = tf.cast(model({IMAGE: images}, training=False), tf.float32)
        label = tf.argmax(probabilities, axis=-1)
        texts = tf.constant(list(class_texts), tf.string)
        return {"probabilities": probabilities, "label": label, "text": tf.gather(texts, label)}

    return serve


def _each(
    decode: Callable[..., tf.Tensor],
    images: tf.Tensor | Mapping[str, tf.Tensor],
    options: ImageInputOptions,
) -> tf.Tensor:
    """uint8 [batch, height, width, channels]."""
    size = [options.height, options.width, options.channels]
    return tf.map_fn(decode, images, fn_output_signature=tf.TensorSpec(size, tf.uint8))
