import numpy as np
import tensorflow as tf

from penstock.components.trainer.images.serving import decode_features
from penstock.components.trainer.input.image_storage import StoredImages
from penstock.components.trainer.input.options import ImageInputOptions


def test_features_as_parsed_become_images_as_trained_on():
    options = ImageInputOptions(batch_size=1, height=2, width=2, channels=1)
    stored = {
        "left": StoredImages("left", first_size=(2, 2)),
        "right": StoredImages("right", "floats", tf.float32, 1, (), (2, 2)),
    }
    left = np.array([[[1], [2]], [[3], [4]]], np.uint8)
    right = np.array([[0.5, -1.0, 2.0, 0.0]], np.float32)
    png = tf.io.encode_png(left)
    found = decode_features(stored, options)({"left": png[None, None], "right": right})
    assert found["left"].dtype == tf.uint8
    np.testing.assert_array_equal(found["left"], left[None])
    np.testing.assert_array_equal(found["right"], right.reshape(1, 2, 2, 1))
