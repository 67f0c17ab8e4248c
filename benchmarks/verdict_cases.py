"""Trainings of which it is known, or can be tried, what limits them; each with its remedy."""

import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from penstock.benchmarks import input as rows_benchmark
from penstock.benchmarks import made_table, questions
from penstock.benchmarks.gpu_networks import naive_rows, packed_rows, stack, table_model

SHARDS, ONE_SHARD, GZIP = "16 shards", "1 shard", "16 shards, GZIP"
BURST_BATCHES, BURST_SECONDS = 64, 0.15


@dataclass(frozen=True)
class Training:
    """One training.

    Attributes:
        source: `rows`, `packed`, `naive`, or `sleep`: a batch in memory.
        units: Of the network's two layers.
        files: What rows are read from.
        columns: Packed columns that are read.
        one_batch: Whether the first batch comes for ever.
        input_ms: How long the input sleeps for each batch, beside the step.
        step_ms: How long the step sleeps, as a host does that waits for its device.
        bursts: Whether the input sleeps for long after every 64th batch.
        known_rows: Whether the verdict knows how many rows there are.
        options: Of the input.
    """

    source: str = "rows"
    units: int = 64
    files: str = SHARDS
    columns: int = 40
    one_batch: bool = False
    input_ms: float = 0.0
    step_ms: float = 0.0
    bursts: bool = False
    known_rows: bool = False
    options: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Case:
    """A training, and what becomes of it by the remedy.

    The verdict has to name the knob; without one the remedy is an input that costs nothing.
    """

    name: str
    before: Training
    after: Training
    knob: str | None = None


def _gain(name: str, **what: Any) -> Case:
    free = {**what, "input_ms": 0.0, "one_batch": True, "options": {}}
    return Case(name, Training(**what), Training(**free))


def _sleeps(input_ms: float, step_ms: float) -> Case:
    name = f"input {input_ms:g} ms, step {step_ms:g} ms"
    return _gain(name, source="sleep", input_ms=input_ms, step_ms=step_ms)


CASES = (
    _sleeps(1, 8), _sleeps(8, 8), _sleeps(10, 8), _sleeps(12, 8), _sleeps(24, 8),
    _gain("naive, a short step", source="naive"),
    _gain("row Examples, a short step"),
    _gain("row Examples, a longer step", units=256),
    _gain("row Examples from memory, a short step", options={"cache": "memory"}),
    _gain("packed, a short step", source="packed"),
    _gain("packed, a longer step", source="packed", units=512),
    Case("rows that are read again", Training(known_rows=True),
         Training(options={"cache": "memory"}), "cache=memory"),
    Case("batches of 32", Training(options={"batch_size": 32, "cache": "memory"}),
         Training(options={"batch_size": 256, "cache": "memory"}), "larger batches"),
    Case("an input in bursts",
         Training("sleep", bursts=True, step_ms=6, options={"prefetch_batches": 2}),
         Training("sleep", bursts=True, step_ms=6, options={"prefetch_batches": 64}),
         "a bigger prefetch"),
    Case("one thread", Training(options={"private_threads": 1}), Training(), "more threads"),
    Case("one shard", Training(files=ONE_SHARD), Training(), "more shards"),
    Case("rows that are parsed", Training(), Training(source="packed"), "pack the rows"),
    Case("GZIP", Training(files=GZIP), Training(), "shards without compression"),
    Case("40 packed columns", Training(source="packed"), Training(source="packed", columns=8),
         "fewer columns"),
)  # fmt: skip


def shards_of(kind: str, rows: int) -> Path:
    """The folder of the rows' shards."""
    names = {SHARDS: "", ONE_SHARD: "-in-1", GZIP: "-gzip"}
    return questions.data_folder() / f"shards-{rows}{names[kind]}"


def open_input(training: Training, rows: int) -> tuple[Any, Any, int]:
    """A function that opens the input, what is known of it, and the rows of a batch."""
    from penstock.components.trainer.input.input import Input
    from penstock.components.trainer.input.options import InputOptions

    root = questions.data_folder() / f"packed-{rows}"
    reading = InputOptions(**{"batch_size": rows_benchmark.BATCH_SIZE, **training.options})
    files = sorted(map(str, shards_of(training.files, rows).iterdir()))
    if training.source == "packed":
        facts = Input.packed(str(root / "ids"), options=reading).facts(split="train")
    else:
        facts = Input.rows(files, rows_benchmark.specs(), options=reading).facts()
        facts = replace(facts, rows=rows if training.known_rows else None)

    def data() -> Any:
        import tensorflow as tf

        if training.source == "rows":
            batches = Input.rows(files, rows_benchmark.specs(), options=reading).train()
            batches = batches.map(stack, num_parallel_calls=tf.data.AUTOTUNE)
        elif training.source == "packed":
            columns = made_table.COLUMNS[: training.columns]
            batches = Input.packed(str(root / "ids"), options=reading, columns=columns).train()
            batches = batches.map(_first_32, num_parallel_calls=tf.data.AUTOTUNE)
        else:
            batches = naive_rows(root) if training.source == "naive" else packed_rows(root)
        if training.one_batch or training.source == "sleep":
            batches = batches.take(1).cache().repeat()
        if training.input_ms:
            batches = batches.map(lambda *batch: _after(training.input_ms / 1000, batch))
        if training.bursts:
            numbered = batches.enumerate()
            batches = numbered.map(lambda i, batch: _after(_burst(i), batch))
        return batches.prefetch(reading.prefetch_batches)

    return data, facts, reading.batch_size


def _first_32(features: Mapping[str, Any]) -> tuple[Any, Any]:
    """32 numbers of as many columns as there are, and a label."""
    import tensorflow as tf

    columns = [tf.cast(value, tf.float32) for value in features.values()]
    numbers = tf.tile(tf.concat(columns, axis=1), [1, 4])[:, :32]
    return tf.math.asinh(numbers), tf.cast(numbers[:, :1] > 0, tf.float32)


def _burst(number: Any) -> Any:
    import tensorflow as tf

    return tf.where(number % BURST_BATCHES == 0, BURST_SECONDS, 0.0)


def _after(seconds: Any, batch: Any) -> Any:
    """The batch, once so much time has passed that takes no CPU."""
    import tensorflow as tf

    with tf.control_dependencies([tf.py_function(lambda s: time.sleep(float(s)), [seconds], [])]):
        return tf.nest.map_structure(tf.identity, batch)


def make_model(training: Training) -> Any:
    """The network, whose step sleeps where the training says so."""
    model = table_model(training.units)
    if training.step_ms:
        step = model.train_step
        model.train_step = lambda batch: step(_after(training.step_ms / 1000, batch))
    return model
