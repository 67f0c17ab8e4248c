"""A small model's training: Keras' fit, Penstock's train; 1,000 steps of 40 rows and 4 evaluations.

Claim: half the time of fit as it comes, tracing included. The data is in memory, so that nothing
but the loop differs; Penstock saves checkpoints, TensorBoard logs and its record besides.

    python benchmarks/training_loop.py             about 1 minute
"""

import argparse
import json
import tempfile
from collections.abc import Callable
from dataclasses import asdict
from typing import Any

from penstock.benchmarks.harness import Measured, in_turn, measure, report

BATCH_SIZE = 40
ROWS = 10_000
EVAL_ROWS = 5_000
STEPS = 1_000
EPOCHS = 4
NUMBERS, CATEGORIES, CATEGORY_SIZE = 3, 14, 50


def make_model() -> Any:
    """Wide and deep, of the size of TFX's taxi example."""
    import keras

    keras.utils.set_random_seed(0)
    numbers = [keras.Input((1,), name=f"n{i}") for i in range(NUMBERS)]
    categories = [keras.Input((1,), name=f"c{i}", dtype="int64") for i in range(CATEGORIES)]
    deep = keras.layers.Concatenate()(numbers)
    for units in (100, 70, 48, 34):
        deep = keras.layers.Dense(units)(deep)
    encode = keras.layers.CategoryEncoding(CATEGORY_SIZE, output_mode="one_hot")
    wide = [encode(category) for category in categories]
    output = keras.layers.Dense(1, activation="sigmoid")(keras.layers.Concatenate()([deep, *wide]))
    model = keras.Model({i.name: i for i in numbers + categories}, output)
    model.compile("adam", "binary_crossentropy", metrics=[keras.metrics.BinaryAccuracy()])
    return model


def make_data() -> tuple[Any, Any]:
    """Endless training batches and one pass of evaluation, held in memory."""
    import numpy as np
    import tensorflow as tf

    rng = np.random.default_rng(0)
    features: dict[str, Any] = {
        f"n{i}": rng.normal(size=(ROWS, 1)).astype(np.float32) for i in range(NUMBERS)
    }
    for i in range(CATEGORIES):
        features[f"c{i}"] = rng.integers(0, CATEGORY_SIZE, (ROWS, 1))
    rows = tf.data.Dataset.from_tensor_slices((features, rng.integers(0, 2, (ROWS, 1))))
    train = rows.batch(BATCH_SIZE, drop_remainder=True).cache().repeat().prefetch(8)
    return train, rows.take(EVAL_ROWS).batch(BATCH_SIZE).cache()


def keras_fit(**options: Any) -> Measured:
    """`fit` as it comes: XLA where Keras thinks that it pays."""
    train_data, eval_data = make_data()
    model = make_model()
    for name, value in options.items():
        setattr(model, name, value)

    def work() -> int:
        model.fit(
            train_data,
            epochs=EPOCHS,
            steps_per_epoch=STEPS // EPOCHS,
            validation_data=eval_data,
            verbose=0,
        )
        return STEPS * BATCH_SIZE

    return measure(work)


def keras_fit_without_xla() -> Measured:
    """`fit` with `jit_compile=False`."""
    return keras_fit(jit_compile=False)


def penstock() -> Measured:
    """`train` as it comes; makes its model as well."""
    from penstock.components.trainer.loop import train
    from penstock.components.trainer.options import TrainOptions

    train_data, eval_data = make_data()
    options = TrainOptions(max_steps=STEPS, steps_per_epoch=STEPS // EPOCHS)
    trained = []  # as in fit, the model is still there when the clock stops

    def work() -> int:
        with tempfile.TemporaryDirectory(prefix="penstock-bench-") as folder:
            trained.append(
                train(
                    make_model,
                    train_data,
                    eval_data,
                    options=options,
                    model_run_dir=f"{folder}/1",
                    resume_dir=f"{folder}/resume",
                )
            )
        return STEPS * BATCH_SIZE

    return measure(work)


CONTENDERS: dict[str, Callable[[], Measured]] = {
    "Keras fit": keras_fit,
    "Keras fit without XLA": keras_fit_without_xla,
    "Penstock": penstock,
}


def main() -> None:
    """Run the benchmark, or, as a child of it, one contender."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--contender", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.contender:
        print(json.dumps(asdict(CONTENDERS[args.contender]())))
        return
    results = in_turn(__file__, [(name, []) for name in CONTENDERS], args.rounds)
    title = f"{STEPS:,} steps of {BATCH_SIZE} rows, {EPOCHS} evaluations, tracing included"
    report(title, results, "Keras fit", as_json=args.json)
    if not args.json:
        for name, result in results.items():
            print(f"{name}: {result.wall_seconds:.2f} s")


if __name__ == "__main__":
    main()
