"""Shuffled training batches from packed records: naive, row Examples, packed, a memory map.

Claims, CPU time a row of 40 columns: row Examples at least 9 times, packed records at least 35
times as fast as one `parse_single_example` a record. A memory map of three arrays, of which rows
are picked at random, is the limit. Each contender first proves that a pass of it has every row
once: the sums of all integers and of the lengths of all strings are checked.

    python benchmarks/packed.py                     about 4 minutes
    python benchmarks/packed.py --rows 131072 --rounds 1
"""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from penstock.benchmarks import input as rows_benchmark
from penstock.benchmarks import made_table, script
from penstock.benchmarks.harness import Measured, measure
from penstock.benchmarks.make_once import make_once
from penstock.benchmarks.reading import reader

BATCH_SIZE = 1024
SECONDS = 4.0
STEPS_A_CALL = 200


def prepare(folder: Path, rows: int, *, unique: bool = False) -> Path:
    """The made table as row Examples, packed with strings, packed with ids, and as arrays."""
    from penstock.components.packing.options import PackOptions
    from penstock.components.packing.pack import pack

    def make(part: Path) -> None:
        (part / "rows").mkdir(parents=True)
        shards = rows_benchmark.shards(folder, rows, unique=unique)
        (part / "rows" / "Split-train").symlink_to(shards.resolve())
        pack(str(part / "rows"), part / "strings", PackOptions())
        batches = list(made_table.batches(rows, unique=unique))
        if not unique:  # else ids make no sense
            pack(str(part / "rows"), part / "ids", PackOptions(ids=made_table.STRINGS))
            _arrays(part, batches)
        (part / "sums.json").write_text(json.dumps(_sums(batches)))

    return make_once(root_of(folder, rows, unique=unique), make)


def root_of(folder: Path, rows: int, *, unique: bool) -> Path:
    """Where `prepare` makes them."""
    return folder / f"packed-{rows}{'-unique' * unique}"


def _arrays(folder: Path, batches: list[Any]) -> None:
    """What a memory map reads: an array a type, strings as ids."""
    import numpy as np

    for name, columns in (("f", made_table.FLOATS), ("i", made_table.INTS)):
        stacked = [np.stack([b[c].to_numpy() for c in columns], axis=1) for b in batches]
        np.save(folder / f"{name}.npy", np.concatenate(stacked))
    words = [np.stack([b[c].to_numpy(False) for c in made_table.STRINGS], 1) for b in batches]
    _, ids = np.unique(np.concatenate(words).astype("S"), return_inverse=True)
    np.save(folder / "s.npy", ids.reshape(sum(map(len, batches)), -1).astype(np.int32))


def _sums(batches: list[Any]) -> dict[str, int]:
    import pyarrow.compute as pc

    integers = sum(pc.sum(b[c]).as_py() for b in batches for c in made_table.INTS)
    lengths = sum(
        pc.sum(pc.binary_length(b[c])).as_py() for b in batches for c in made_table.STRINGS
    )
    return {"integers": integers, "lengths": lengths}


def row_files(root: Path) -> list[str]:
    """The shards of row Examples of what `prepare` made, or of `packed_images`."""
    return sorted(str(path) for path in (root / "rows" / "Split-train").iterdir())


def naive(root: Path) -> Any:
    """One record after another, not even shuffled."""
    return rows_benchmark.naive(row_files(root))


def row_examples(root: Path) -> Any:
    """`Input.rows` as it comes."""
    return rows_benchmark.penstock(row_files(root))


def packed(root: Path, folder: str = "strings", **options: Any) -> Any:
    """`Input.packed` as it comes: a dict of 40 columns."""
    from penstock.components.trainer.input.input import Input
    from penstock.components.trainer.input.options import InputOptions

    return Input.packed(
        str(root / folder), options=InputOptions(batch_size=BATCH_SIZE), **options
    ).train()


def packed_stacked(root: Path) -> Any:
    """The same, columns of a type in one tensor."""
    return packed(root, stacked=True)


def packed_ids(root: Path) -> Any:
    """Strings as vocabulary ids: a dict of 40 columns."""
    return packed(root, "ids")


def packed_ids_stacked(root: Path) -> Any:
    """Strings as vocabulary ids, columns of a type in one tensor."""
    return packed(root, "ids", stacked=True)


def memory_map(root: Path) -> Any:
    """Rows picked from three mapped arrays in a new order each pass; strings as ids."""
    import numpy as np
    import tensorflow as tf

    from penstock.components.trainer.input.common import python_op

    arrays = [np.load(root / f"{name}.npy", mmap_mode="r") for name in "fis"]
    count, types = len(arrays[0]), [tf.float32, tf.int64, tf.int32]

    def order(_: Any) -> Any:
        return tf.data.Dataset.from_tensor_slices(
            tf.reshape(tf.random.shuffle(tf.range(count)), [-1, BATCH_SIZE])
        )

    def pick(rows: Any) -> Any:
        picked = python_op(lambda r: [a[r] for a in arrays], [rows], types)
        shaped = [
            tf.ensure_shape(part, [BATCH_SIZE, a.shape[1]])
            for part, a in zip(picked, arrays, strict=True)
        ]
        return dict(zip(("float32", "int64", "int32"), shaped, strict=True))

    orders = tf.data.Dataset.range(1).repeat().flat_map(order)
    # In order: a batch of the next pass must not overtake one of this.
    return orders.map(pick, num_parallel_calls=2).prefetch(8)


CONTENDERS: dict[str, Callable[[Path], Any]] = {
    "parse_single_example": naive,
    "row Examples": row_examples,
    "packed": packed,
    "packed, stacked": packed_stacked,
    "packed ids": packed_ids,
    "packed ids, stacked": packed_ids_stacked,
    "memory map of ids": memory_map,
}


def _child(name: str, root: Path) -> Measured:
    batches = iter(CONTENDERS[name](root))
    sums = json.loads((root / "sums.json").read_text())
    check(batches, int(root.name.rpartition("-")[2]), sums)
    read = reader(batches, steps_a_call=STEPS_A_CALL)
    return measure(lambda: read(SECONDS))


def check(batches: Any, rows: int, sums: dict[str, int]) -> None:
    """Hold the first pass against the sums of the table."""
    import tensorflow as tf

    integers = lengths = strings = 0
    for _ in range(rows // BATCH_SIZE):
        for tensor in next(batches).values():
            if tensor.dtype == tf.int64:
                integers += int(tf.reduce_sum(tensor))
            elif tensor.dtype == tf.string:
                strings += 1
                lengths += int(tf.reduce_sum(tf.strings.length(tensor)))
    if integers != sums["integers"] or (strings and lengths != sums["lengths"]):
        raise SystemExit(f"a pass sums to {integers} and {lengths}, the table to {sums}")


if __name__ == "__main__":
    script.main(
        CONTENDERS, _child, prepare, unit="rows", count=2**18, multiple_of=BATCH_SIZE,
        title=f"Shuffled batches of {BATCH_SIZE}, {{}} rows x 40 columns",
        base="parse_single_example",
    )  # fmt: skip
