"""How long the accelerator waits for its input: naive, row Examples and packed records.

A network whose step is short is trained on 1,024 rows of 32 numbers a step, from the same rows
each time; `one batch` is the same batch again and again, the limit. On a machine without a GPU
the step runs on the cores that the input needs, so that waits are longer and rates lower.

Claim: with packed input, training is within 5 % of one cached batch.

    python benchmarks/gpu_input.py                   about 3 minutes
    python benchmarks/gpu_input.py --units 4096      a longer step, for a large GPU
"""

import argparse
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from penstock.benchmarks import input as rows_benchmark
from penstock.benchmarks import made_table
from penstock.benchmarks import packed as packed_benchmark
from penstock.benchmarks.questions import data_folder
from penstock.benchmarks.trained import in_turn, report, train_for

BATCH_SIZE = 1024
NUMBERS = made_table.FLOATS + made_table.INTS
LIMIT = "one batch"


def make_model(units: int) -> Any:
    """Two layers over the numbers of a row."""
    import keras

    keras.utils.set_random_seed(0)
    hidden = [keras.layers.Dense(units, activation="relu") for _ in range(2)]
    model = keras.Sequential([*hidden, keras.layers.Dense(1, "sigmoid", dtype="float32")])
    model.build((None, len(NUMBERS)))
    model.compile("adam", "binary_crossentropy")
    return model


def stack(features: dict[str, Any]) -> tuple[Any, Any]:
    """Features by name as one tensor float32[batch, 32], and a label."""
    import tensorflow as tf

    columns = [tf.cast(features[name], tf.float32) for name in NUMBERS]
    return with_label(tf.concat(columns, axis=1))


def with_label(numbers: Any) -> tuple[Any, Any]:
    """Numbers squeezed into a small range, and whether the first is positive."""
    import tensorflow as tf

    return tf.math.asinh(numbers), tf.cast(numbers[:, :1] > 0, tf.float32)


def naive(root: Path) -> Any:
    """One `parse_single_example` after another, nothing ahead, not shuffled."""
    return rows_benchmark.naive(_files(root)).map(stack)


def row_examples(root: Path) -> Any:
    """`train_input_fn`."""
    import tensorflow as tf

    batches = rows_benchmark.penstock(_files(root))
    return batches.map(stack, num_parallel_calls=tf.data.AUTOTUNE).prefetch(8)


def packed(root: Path) -> Any:
    """`packed_train_input_fn`."""
    import tensorflow as tf

    from penstock.components.trainer.input.options import InputOptions
    from penstock.components.trainer.input.packed import packed_train_input_fn

    options = InputOptions(batch_size=BATCH_SIZE)
    batches = packed_train_input_fn(str(root / "ids"), options=options, stacked=True)

    def stack(features: dict[str, Any]) -> tuple[Any, Any]:
        integers = tf.cast(features["int64"], tf.float32)
        return with_label(tf.concat([features["float32"], integers], axis=1))

    return batches.map(stack, num_parallel_calls=tf.data.AUTOTUNE).prefetch(8)


def one_batch(root: Path) -> Any:
    """The first packed batch, for ever."""
    return packed(root).take(1).cache().repeat().prefetch(8)


def _files(root: Path) -> list[str]:
    return sorted(str(path) for path in (root / "rows" / "Split-train").iterdir())


CONTENDERS: dict[str, Callable[[Path], Any]] = {
    "naive": naive,
    "row Examples": row_examples,
    "packed": packed,
    LIMIT: one_batch,
}


def main() -> None:
    """Run the benchmark, or, as a child of it, one contender."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=262_144)
    parser.add_argument("--units", type=int, default=256, help="of each layer: the step's length")
    parser.add_argument("--seconds", type=float, default=5.0, help="a contender and round")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--data", type=Path, default=data_folder())
    parser.add_argument("--prefetch-to-device", action="store_true")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--contender", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.rows % BATCH_SIZE:
        parser.error(f"--rows must be a multiple of {BATCH_SIZE}, so that every batch is full")
    root = packed_benchmark.prepare(args.data, args.rows)
    if args.contender:
        figures = train_for(
            args.seconds,
            lambda: make_model(args.units),
            lambda: CONTENDERS[args.contender](root),
            batch_rows=BATCH_SIZE,
            prefetch_to_device=args.prefetch_to_device,
        )
        print(json.dumps(figures))
        return
    arguments = ["--rows", str(args.rows), "--units", str(args.units)]
    arguments += ["--seconds", str(args.seconds), "--data", str(args.data)]
    arguments += ["--prefetch-to-device"] * args.prefetch_to_device
    results = in_turn(__file__, list(CONTENDERS), arguments, args.rounds)
    title = f"training on {args.rows:,} rows of {len(NUMBERS)} numbers, 2 x {args.units} units"
    report(title, results, LIMIT, as_json=args.json)
    if not args.json:
        for name, figures in results.items():
            print(f"{name}: {figures['verdict']}")


if __name__ == "__main__":
    main()
