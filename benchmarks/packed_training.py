"""A network's training from one cached batch, packed records, row Examples and naive input.

Claim: from packed records training takes at most 5 % more than from one batch that is always
there, which is what an input that costs nothing would give. A network of four layers, as tabular
data has them, through Penstock's training loop; the first epoch, with tracing, is not counted.

    python benchmarks/packed_training.py             about 3 minutes
"""

import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from penstock.benchmarks import made_table, script
from penstock.benchmarks import packed as packed_benchmark
from penstock.benchmarks.harness import Measured, cpu_seconds_now, peak_mib_now

BATCH_SIZE = packed_benchmark.BATCH_SIZE
LABEL = made_table.FLOATS[-1]
UNITS = (512, 256, 128)
WARM_STEPS = 100
STEPS = 300
LIMIT = "one cached batch"


def make_model() -> Any:
    """A network of the 19 floats and 12 integers of a row."""
    import keras

    keras.utils.set_random_seed(0)
    floats = keras.Input((len(made_table.FLOATS) - 1,), name="float32")
    integers = keras.Input((len(made_table.INTS),), name="int64", dtype="int64")
    scaled = keras.ops.log1p(keras.ops.cast(integers, "float32"))
    hidden = keras.layers.Concatenate()([floats / 100, scaled])
    for units in UNITS:
        hidden = keras.layers.Dense(units, activation="relu")(hidden)
    model = keras.Model({"float32": floats, "int64": integers}, keras.layers.Dense(1)(hidden))
    model.compile(keras.optimizers.Adam(1e-4), "mean_absolute_error")
    return model


def packed(root: Path) -> Any:
    """Packed records, columns of a type in one tensor."""
    from penstock.components.trainer.input.input import Input
    from penstock.components.trainer.input.options import InputOptions

    options = InputOptions(batch_size=BATCH_SIZE)
    columns = {*made_table.FLOATS, *made_table.INTS}
    return Input.packed(
        str(root / "ids"), options=options, label=LABEL, columns=columns, stacked=True
    ).train()


def one_batch(root: Path) -> Any:
    """The first of these, again and again."""
    return packed(root).take(1).cache().repeat().prefetch(8)


def row_examples(root: Path) -> Any:
    """`Input.rows` as it comes."""
    return packed_benchmark.row_examples(root).map(_stacked).prefetch(8)


def naive(root: Path) -> Any:
    """One `parse_single_example` a record."""
    return packed_benchmark.naive(root).map(_stacked)


def _stacked(features: dict[str, Any]) -> Any:
    import tensorflow as tf

    floats = [features[name] for name in made_table.FLOATS if name != LABEL]
    integers = [features[name] for name in made_table.INTS]
    return {"float32": tf.concat(floats, 1), "int64": tf.concat(integers, 1)}, features[LABEL]


CONTENDERS: dict[str, Callable[[Path], Any]] = {
    LIMIT: one_batch,
    "packed": packed,
    "row Examples": row_examples,
    "parse_single_example": naive,
}


def _child(name: str, root: Path) -> Measured:
    from penstock.components.trainer.loop import train
    from penstock.components.trainer.options import TrainOptions

    marks = []
    with tempfile.TemporaryDirectory(prefix="penstock-bench-") as folder:
        train(
            make_model,
            CONTENDERS[name](root),
            options=TrainOptions(max_steps=WARM_STEPS + STEPS, steps_per_epoch=WARM_STEPS),
            model_run_dir=folder,
            on_epoch=lambda _: marks.append((time.perf_counter(), cpu_seconds_now())),
        )
    (begin, cpu_begin), (end, cpu_end) = marks[0], marks[-1]
    return Measured(STEPS * BATCH_SIZE, end - begin, cpu_end - cpu_begin, peak_mib_now())


def main() -> None:
    """Run the benchmark, or, as a child of it, one contender."""
    results = script.main(
        CONTENDERS, _child, packed_benchmark.prepare, unit="rows", count=2**18,
        multiple_of=BATCH_SIZE, title=f"{STEPS} training steps of {BATCH_SIZE} rows", base=LIMIT,
    )  # fmt: skip
    for name, result in results.items():
        wall = result.wall_seconds / results[LIMIT].wall_seconds - 1
        cpu = result.cpu_seconds / results[LIMIT].cpu_seconds - 1
        print(f"{name}: {wall:+.1%} time, {cpu:+.1%} CPU time, of {LIMIT}'s")


if __name__ == "__main__":
    main()
