"""Decoding in a served image classifier, the same as in training."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial

import keras
import tensorflow as tf

from penstock.components.trainer.export import Prepare, Signature
from penstock.components.trainer.input.image_decode import decode_encoded, decode_whole
from penstock.components.trainer.input.image_options import ImageInputOptions
from penstock.components.trainer.input.images import IMAGE, Stored


def decode_features(stored: Stored, options: ImageInputOptions) -> Prepare:
    """A function of parsed features to the model's, for `export(prepare=...)`.

    It takes each image as its feature holds it, floats [batch, ...], and, of raw pixels with a size
    of their own, height and width; it gives what the training input does, `{"image": [batch,
    height, width, channels]}`.
    """

    def prepare(features: Mapping[str, tf.Tensor]) -> dict[str, tf.Tensor]:
        images = {}
        for name, one in stored.items():
            columns = {
                n: features[n] if features[n].dtype == tf.float32 else tf.reshape(features[n], [-1])
                for n in one.spec
            }
            decode = partial(decode_whole, stored=one, options=options)
            images[name] = _each(decode, columns, options, one.dtype)
        return images

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
        images = _each(decode, encoded, options, tf.uint8)
        probabilities = tf.cast(model({IMAGE: images}, training=False), tf.float32)
        label = tf.argmax(probabilities, axis=-1)
        texts = tf.constant(list(class_texts), tf.string)
        return {"probabilities": probabilities, "label": label, "text": tf.gather(texts, label)}

    return serve


def _each(
    decode: Callable[..., tf.Tensor],
    images: tf.Tensor | Mapping[str, tf.Tensor],
    options: ImageInputOptions,
    dtype: tf.DType,
) -> tf.Tensor:
    """[batch, height, width, channels]."""
    size = [options.height, options.width, options.channels]
    return tf.map_fn(decode, images, fn_output_signature=tf.TensorSpec(size, dtype))
