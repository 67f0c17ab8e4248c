import keras
import numpy as np
import pytest
import tensorflow as tf

from penstock.components.trainer.images.augmentation import Augmentation
from penstock.components.trainer.images.augmentation_options import AugmentOptions

ALL = {
    "flip_horizontal": True,
    "flip_vertical": True,
    "rotate_degrees": 30,
    "shift": 0.3,
    "zoom": 0.3,
    "brightness": 0.5,
    "contrast": 0.5,
    "saturation": 0.9,
    "hue": 0.5,
}


def images():
    return np.random.default_rng(0).integers(0, 256, (8, 12, 12, 3)).astype(np.float32)


def augmented(options, given, **arguments):
    return Augmentation(options, seed=1, **arguments)(given, training=True).numpy()


@pytest.mark.parametrize("name", ALL)
def test_each_option_changes_images_in_training_alone(name):
    options = AugmentOptions(**{name: ALL[name]})
    layer = Augmentation(options, seed=1)
    given = images()
    changed = layer(given, training=True).numpy()
    assert changed.shape == given.shape
    assert np.abs(changed - given).max() > 5
    assert changed.min() >= 0
    assert changed.max() <= 255.5
    np.testing.assert_array_equal(layer(given, training=False), given)
    np.testing.assert_array_equal(layer(given), given)


def test_nothing_is_changed_by_default():
    np.testing.assert_array_equal(augmented(AugmentOptions(), images()), images())


def test_gray_images_keep_their_one_channel():
    given = images()[..., :1]
    options = AugmentOptions(saturation=0.9, hue=0.5)
    np.testing.assert_array_equal(augmented(options, given, channels=1), given)


def test_a_model_with_it_is_saved_without_its_random_numbers(tmp_path):
    image = keras.Input((12, 12, 3))
    model = keras.Model(image, Augmentation(AugmentOptions(**ALL))(image))
    module = tf.Module()
    module.model = model
    serve = tf.function(
        lambda x: model(x, training=False),
        input_signature=[tf.TensorSpec([None, 12, 12, 3], tf.float32)],
    )
    tf.saved_model.save(module, str(tmp_path), signatures={"serve": serve})
    served = tf.saved_model.load(str(tmp_path)).signatures["serve"](tf.constant(images()))
    [output] = served.values()
    np.testing.assert_array_equal(output, images())
