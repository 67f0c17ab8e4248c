import keras
import numpy as np
import pytest

from penstock.components.errors import UsageError
from penstock.components.trainer.images.applications import (
    ApplicationBase,
    check_application,
)

SIDE = 32


def base(application="MobileNetV2", *, weights=None, trainable=False):
    return ApplicationBase(
        application, height=SIDE, width=SIDE, weights=weights, trainable=trainable
    )


def photos():
    return np.random.default_rng(0).uniform(0, 255, (2, SIDE, SIDE, 3)).astype(np.float32)


@pytest.fixture(scope="module")
def weights(tmp_path_factory):
    """Weights of a MobileNetV2 without its top, and its output for `photos()`."""
    keras.utils.set_random_seed(3)
    network = keras.applications.MobileNetV2(
        weights=None, include_top=False, input_shape=(SIDE, SIDE, 3), pooling="avg"
    )
    file = tmp_path_factory.mktemp("weights") / "mobilenet.weights.h5"
    network.save_weights(file)
    given = keras.applications.mobilenet_v2.preprocess_input(photos())
    return str(file), network(given, training=False).numpy()


def test_another_name_is_refused_with_those_of_keras():
    with pytest.raises(UsageError, match=r"one of ConvNeXtBase, .*, Xception; got 'MobileNetV9'"):
        check_application("MobileNetV9")


@pytest.mark.slow
def test_weights_of_a_file_and_the_scaling_of_the_family_are_used(weights):
    file, expected = weights
    np.testing.assert_allclose(base(weights=file)(photos(), training=True), expected, atol=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("application", "black", "white"),
    [
        ("ResNet50", [-103.939, -116.779, -123.68], [151.061, 138.221, 131.32]),
        ("MobileNetV3Small", [0, 0, 0], [255, 255, 255]),
    ],
)
def test_each_family_has_its_own_scaling(application, black, white):
    ends = base(application)._scale(keras.ops.convert_to_tensor([[[[0.0] * 3, [255.0] * 3]]]))
    np.testing.assert_allclose(ends, [[[black, white]]], atol=1e-3)


@pytest.mark.slow
def test_a_frozen_base_is_left_as_it_is_by_training(weights):
    def moved(layer):
        """Whether a call in training mode changes the layer's weights or its moving means."""
        before = [np.array(weight) for weight in layer.network.weights]
        layer(photos(), training=True)
        pairs = zip(before, layer.network.weights, strict=True)
        return any(not np.array_equal(old, np.array(new)) for old, new in pairs)

    frozen, free = base(weights=weights[0]), base(weights=weights[0], trainable=True)
    assert frozen.trainable_weights == []
    assert len(free.trainable_weights) == len(free.network.trainable_weights) > 100
    assert not moved(frozen)
    assert moved(free)


@pytest.mark.slow
def test_what_does_not_fit_is_refused(weights, tmp_path):
    with pytest.raises(UsageError, match=r"weights none\.weights\.h5: not those of MobileNetV2"):
        base(weights="none.weights.h5")
    (tmp_path / "text.weights.h5").write_text("none")
    with pytest.raises(UsageError, match=r"text\.weights\.h5: not those of MobileNetV2 without"):
        base(weights=str(tmp_path / "text.weights.h5"))
    with pytest.raises(UsageError, match="h5: not those of MobileNet without its top"):
        base("MobileNet", weights=weights[0])
    with pytest.raises(UsageError, match="InceptionResNetV2 at 32x32: Input size must be at least"):
        base("InceptionResNetV2")
