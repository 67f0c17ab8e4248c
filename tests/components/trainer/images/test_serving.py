import numpy as np
import tensorflow as tf

from penstock.components.trainer.images.serving import decode_features
from penstock.components.trainer.input.image_decode import StoredImages
from penstock.components.trainer.input.options import ImageInputOptions


def test_features_as_parsed_become_images_as_trained_on():
    options = ImageInputOptions(batch_size=1, height=2, width=2, channels=1)
    stored = StoredImages("photo", first_size=(2, 2))
    pixels = np.array([[[1], [2]], [[3], [4]]], np.uint8)
    png = tf.io.encode_png(pixels)
    found = decode_features(stored, options)({"photo": png[None, None]})
    assert found["image"].dtype == tf.uint8
    np.testing.assert_array_equal(found["image"], pixels[None])
