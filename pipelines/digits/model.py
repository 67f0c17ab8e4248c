"""The classifier: augmentation, a base that sees, a top that decides."""

from typing import Any

import keras

from penstock import IMAGE, ApplicationBase, Augmentation, AugmentOptions, ImageInputOptions
from penstock.pipelines.digits.config import ModelOptions


def build_model(
    options: ModelOptions, *, images: ImageInputOptions, augment: AugmentOptions, classes: int
) -> keras.Model:
    """Build and compile the model.

    Input: `image` uint8 [batch, height, width, channels]. Output: float32 [batch, classes],
    the probability of each class.

    Args:
        options: The network.
        images: Their size.
        augment: What the step varies; it does nothing outside training.
        classes: How many there are; labels are 0..classes - 1.
    """
    shape = (images.height, images.width, images.channels)
    image = keras.Input(shape, name=IMAGE, dtype="uint8")
    seen = keras.ops.cast(image, "float32")
    if augment.is_any and augment.place == "device":
        seen = Augmentation(augment, seed=images.seed, channels=images.channels)(seen)
    seen = _application(seen, options, shape) if options.application else _small(seen, options)
    seen = keras.layers.Dropout(options.dropout)(seen)
    if options.hidden_units:
        seen = keras.layers.Dense(options.hidden_units, activation="relu")(seen)
        seen = keras.layers.Dropout(options.dropout)(seen)
    # float32 whatever the policy: a probability in 16 bits is too coarse for the loss.
    probability = keras.layers.Dense(classes, activation="softmax", dtype="float32")(seen)

    model = keras.Model({IMAGE: image}, probability)
    model.compile(
        optimizer=keras.optimizers.Adam(options.learning_rate),
        loss="sparse_categorical_crossentropy",
        metrics=[keras.metrics.SparseCategoricalAccuracy(name="accuracy")],
    )
    return model


def _application(seen: Any, options: ModelOptions, shape: tuple[int, int, int]) -> Any:
    """The features of a network of `keras.applications`; gray is given as three equal colours."""
    height, width, channels = shape
    if channels == 1:
        seen = keras.layers.Concatenate()([seen, seen, seen])
    assert options.application is not None
    return ApplicationBase(
        options.application,
        height=height,
        width=width,
        weights=options.weights,
        trainable=options.train_base,
    )(seen)


def _small(seen: Any, options: ModelOptions) -> Any:
    """Two convolutions a stage, after each of which the image is half as large."""
    layers = keras.layers
    seen = layers.Rescaling(1 / 255)(seen)
    for filters in options.filters:
        for _ in range(2):
            seen = layers.Conv2D(filters, 3, padding="same", use_bias=False)(seen)
            seen = layers.BatchNormalization()(seen)
            seen = layers.Activation("relu")(seen)
        seen = layers.MaxPooling2D(padding="same")(seen)
    return layers.Flatten()(seen)
