"""What each option of the training step and of the input's threads is worth on this machine.

Claim: the defaults of `TrainOptions` and `InputOptions` are the best choice, or within 5 % of
it, for a small network; on a GPU, measure and choose.

Three networks: `short`, wide and deep, whose step is half a millisecond; `dense`, 3 layers of
1,024 units, which is all matrix products; `rows`, a short step that is fed from shards, where
the input's threads and the step's share the cores.

    python benchmarks/accelerator.py                 about 8 minutes
    python benchmarks/accelerator.py --network dense --rounds 1
"""

import argparse
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from penstock.benchmarks import input as rows_benchmark
from penstock.benchmarks import made_table, training_loop
from penstock.benchmarks.questions import data_folder
from penstock.benchmarks.trained import in_turn, report, train_for

DENSE_BATCH = 512
DENSE_INPUTS, DENSE_UNITS = 256, 1024
ROWS_BATCH = 1024
NUMBERS = made_table.FLOATS + made_table.INTS

AS_IT_COMES = "as it comes"
STEP_OPTIONS: dict[str, dict[str, Any]] = {
    AS_IT_COMES: {},
    "xla": {"xla": True},
    "mixed_precision=bfloat16": {"mixed_precision": "bfloat16"},
    "mixed_precision=float16": {"mixed_precision": "float16"},
    "prefetch_to_device": {"prefetch_to_device": True},
    "steps_per_execution=1": {"steps_per_execution": 1},
    "steps_per_execution=10": {"steps_per_execution": 10},
    "steps_per_execution=1000": {"steps_per_execution": 1000},
}
INPUT_OPTIONS: dict[str, dict[str, Any]] = {
    AS_IT_COMES: {},
    "private_threads=1": {"private_threads": 1},
    "private_threads=cores": {"private_threads": len(os.sched_getaffinity(0))},
    "private_threads=2*cores": {"private_threads": 2 * len(os.sched_getaffinity(0))},
    "ram_budget_mib=64": {"ram_budget_mib": 64},
    "prefetch_batches=2": {"prefetch_batches": 2},
    "prefetch_batches=32": {"prefetch_batches": 32},
}


def dense_model() -> Any:
    """Three wide layers."""
    import keras

    keras.utils.set_random_seed(0)
    model = keras.Sequential(
        [keras.layers.Dense(DENSE_UNITS, activation="relu") for _ in range(3)]
        + [keras.layers.Dense(1, activation="sigmoid", dtype="float32")]
    )
    model.build((None, DENSE_INPUTS))
    model.compile("adam", "binary_crossentropy")
    return model


def dense_data() -> Any:
    """Batches in memory."""
    import numpy as np
    import tensorflow as tf

    rng = np.random.default_rng(0)
    x = rng.normal(size=(8 * DENSE_BATCH, DENSE_INPUTS)).astype(np.float32)
    rows = tf.data.Dataset.from_tensor_slices((x, (x[:, :1] > 0).astype(np.float32)))
    return rows.batch(DENSE_BATCH, drop_remainder=True).cache().repeat().prefetch(8)


def rows_model() -> Any:
    """One small layer over the numbers of a row."""
    import keras

    keras.utils.set_random_seed(0)
    model = keras.Sequential(
        [keras.layers.Dense(16, "relu"), keras.layers.Dense(1, "sigmoid", dtype="float32")]
    )
    model.build((None, len(NUMBERS) - 1))
    model.compile("adam", "binary_crossentropy")
    return model


def rows_data(files: list[str], **options: Any) -> Any:
    """Row Examples from shards, shuffled: all numbers in one tensor, and a label."""
    import tensorflow as tf

    from penstock.components.trainer.input.options import InputOptions
    from penstock.components.trainer.input.rows import train_input_fn

    spec = {name: kind for name, kind in rows_benchmark.specs().items() if name in NUMBERS}
    batches = train_input_fn(
        files, spec, label="f0", options=InputOptions(batch_size=ROWS_BATCH, **options)
    )

    def stack(features: dict[str, Any], label: Any) -> tuple[Any, Any]:
        columns = [tf.cast(features[name], tf.float32) for name in NUMBERS if name != "f0"]
        return tf.math.asinh(tf.concat(columns, axis=1)), tf.cast(label > 0, tf.float32)

    return batches.map(stack, num_parallel_calls=tf.data.AUTOTUNE).prefetch(8)


def short(_root: Path, seconds: float, name: str) -> dict[str, Any]:
    """The network of `training_loop.py`."""
    return train_for(
        seconds,
        training_loop.make_model,
        lambda: training_loop.make_data()[0],
        batch_rows=training_loop.BATCH_SIZE,
        **STEP_OPTIONS[name],
    )


def dense(_root: Path, seconds: float, name: str) -> dict[str, Any]:
    """The network that is all matrix products."""
    return train_for(seconds, dense_model, dense_data, batch_rows=DENSE_BATCH, **STEP_OPTIONS[name])


def rows(root: Path, seconds: float, name: str) -> dict[str, Any]:
    """The network that shards feed."""
    files = sorted(str(path) for path in root.iterdir())
    return train_for(
        seconds,
        rows_model,
        lambda: rows_data(files, **INPUT_OPTIONS[name]),
        batch_rows=ROWS_BATCH,
    )


def dense_options() -> list[str]:
    """Without float16 where there is no GPU: a CPU takes minutes for it."""
    from penstock.components.trainer.utilisation.gpus import open_gpus

    slow = () if open_gpus() else ("mixed_precision=float16",)
    return [name for name in STEP_OPTIONS if name not in slow]


Contender = Callable[[Path, float, str], dict[str, Any]]
NETWORKS: dict[str, tuple[Contender, list[str]]] = {
    "short": (short, list(STEP_OPTIONS)),
    "dense": (dense, dense_options()),
    "rows": (rows, list(INPUT_OPTIONS)),
}


def main() -> None:
    """Run the benchmark, or, as a child of it, one contender."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--network", choices=NETWORKS, help="only this one")
    parser.add_argument("--rows", type=int, default=200_000, help="of the shards")
    parser.add_argument("--seconds", type=float, default=3.0, help="a contender and round")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--data", type=Path, default=data_folder())
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--contender", help=argparse.SUPPRESS)
    args = parser.parse_args()
    root = rows_benchmark.shards(args.data, args.rows)
    if args.contender:
        print(json.dumps(NETWORKS[args.network][0](root, args.seconds, args.contender)))
        return
    for network, (contender, names) in NETWORKS.items():
        if args.network in (None, network):
            arguments = ["--network", network, "--rows", str(args.rows)]
            arguments += ["--seconds", str(args.seconds), "--data", str(args.data)]
            results = in_turn(__file__, names, arguments, args.rounds)
            title = f"\n{network}: {(contender.__doc__ or '').lower()}"
            report(title, results, AS_IT_COMES, as_json=args.json)


if __name__ == "__main__":
    main()
