"""The wide and deep model: a weight per category (wide) and a small network (deep)."""

import itertools
from collections.abc import Sequence

import keras

from penstock.pipelines.taxi import features


def build_model(
    *, embedding_size: int, hidden_units: Sequence[int], learning_rate: float
) -> keras.Model:
    """Build and compile the model; the arguments are those of `config.ModelOptions`.

    Inputs: `numeric_xf` float32 [batch, 6] and `category_xf` int64 [batch, 9].
    Output: float32 [batch, 1], the probability that the passenger tips well.
    """
    sizes = list(features.category_sizes().values())
    numeric = keras.Input((2 * len(features.NUMERIC),), name=features.NUMERIC_XF, dtype="float32")
    category = keras.Input((len(sizes),), name=features.CATEGORY_XF, dtype="int64")

    # One table for all columns: each column's values get rows of their own.
    first_row = [0, *itertools.accumulate(sizes[:-1])]
    rows = category + keras.ops.convert_to_tensor(first_row, dtype="int64")
    wide = keras.layers.Embedding(sum(sizes), 1, embeddings_initializer="zeros", name="wide")(rows)
    deep = keras.layers.Embedding(sum(sizes), embedding_size, name="embedding")(rows)
    deep = keras.layers.Concatenate()([keras.layers.Flatten()(deep), numeric])
    for units in hidden_units:
        deep = keras.layers.Dense(units, activation="relu")(deep)
    both = keras.layers.Concatenate()([keras.layers.Flatten()(wide), deep])
    # float32 whatever the policy: a probability in float16 is too coarse for the loss.
    probability = keras.layers.Dense(1, activation="sigmoid", dtype="float32")(both)

    model = keras.Model({features.NUMERIC_XF: numeric, features.CATEGORY_XF: category}, probability)
    model.compile(
        optimizer=keras.optimizers.Adam(learning_rate),
        loss="binary_crossentropy",
        metrics=[keras.metrics.BinaryAccuracy(name="accuracy")],
    )
    return model
