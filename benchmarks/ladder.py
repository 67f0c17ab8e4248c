"""Measures the gain of each step from a naive reader to packed records, on a table and on images.

Each step up to the cache is added to the steps before it, with two exceptions: the vectorised map
replaces the parallel map, and the cache stores the result of the parallel map. The other contenders
also shuffle: tf.data tuned as well as possible, row Examples read by `Input.rows` (only on the
table), and packed records.
"""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from penstock.benchmarks import claims, photos, table
from penstock.benchmarks.harness import Check, Group, Measured, at_least, bound, measure
from penstock.benchmarks.training import reader
from penstock.components.errors import UsageError

CYCLE = 8
NAIVE, TUNED, ROWS, PACKED = "naive", "tf.data, tuned", "row Examples", "packed"


@dataclass(frozen=True)
class Options:
    """Data to read, and the number of rounds.

    Attributes:
        rows: Rows of the generated table of 40 columns; 0 leaves the table out.
        images: Generated JPEG photos of 375 or 333 x 500; 0 leaves them out.
        seconds: Time for which each contender reads in each round.
        rounds: How often each contender runs.
    """

    rows: int = 131_072
    images: int = 512
    seconds: float = 2.5
    rounds: int = 3

    def __post_init__(self) -> None:
        at_least(self, rows=(0, table.BATCH), images=(0, photos.BATCH), rounds=1, seconds=0)
        if not (self.rows or self.images):
            raise UsageError("nothing to measure: rows and images are 0")


@dataclass(frozen=True)
class Input:
    """Files of row Examples for a contender, and how to parse, batch and shuffle their rows.

    `shuffled` is the size of the shuffle buffer, in rows.
    """

    files: list[str]
    parse_one: Callable[[Any], Any]
    parse_batch: Callable[[Any], Any] | None
    batch: int
    shuffled: int


def naive(given: Input) -> Any:
    """Reads one file after another, one record after another."""
    import tensorflow as tf

    return tf.data.TFRecordDataset(given.files).map(given.parse_one).batch(given.batch).repeat()


def prefetch(given: Input) -> Any:
    """Reads one file after another, with batches prefetched."""
    return naive(given).prefetch(8)


def interleave(given: Input) -> Any:
    """Reads files in parallel, with batches prefetched."""
    return _interleaved(given).map(given.parse_one).batch(given.batch).repeat().prefetch(8)


def parallel_map(given: Input) -> Any:
    """Reads files and parses records in parallel, with batches prefetched."""
    rows = _interleaved(given).map(given.parse_one, **_parallel())
    return rows.batch(given.batch).repeat().prefetch(8)


def vectorised_map(given: Input) -> Any:
    """Reads files in parallel, and parses whole batches at once."""
    batches = _interleaved(given).batch(given.batch)
    return batches.map(given.parse_batch, **_parallel()).repeat().prefetch(8)


def cache(given: Input) -> Any:
    """Reads and parses in parallel, and keeps the parsed batches in memory."""
    rows = _interleaved(given).map(given.parse_one, **_parallel())
    return rows.batch(given.batch).cache().repeat().prefetch(8)


def tuned(given: Input) -> Any:
    """Parses in parallel, prefetches; the fastest pipeline found that shuffles files and rows."""
    import tensorflow as tf

    files = tf.data.Dataset.from_tensor_slices(given.files).shuffle(len(given.files))
    # One thread reads. Reading in more threads, as tf.data's performance guide recommends, hands
    # over each record to another thread; here this takes four times the CPU (22 us a row instead of
    # 5.6), and AUTOTUNE does not change that.
    rows = files.interleave(tf.data.TFRecordDataset, cycle_length=CYCLE).shuffle(given.shuffled)
    if given.parse_batch:
        batches = rows.batch(given.batch).map(given.parse_batch, **_parallel())
    else:
        batches = rows.map(given.parse_one, **_parallel()).batch(given.batch)
    return batches.repeat().prefetch(tf.data.AUTOTUNE)


def _parallel() -> dict[str, Any]:
    import tensorflow as tf

    return {"num_parallel_calls": tf.data.AUTOTUNE, "deterministic": False}


def _interleaved(given: Input) -> Any:
    import tensorflow as tf

    files = tf.data.Dataset.from_tensor_slices(given.files)
    return files.interleave(tf.data.TFRecordDataset, cycle_length=CYCLE, **_parallel())


STEPS: dict[str, Callable[[Input], Any]] = {
    NAIVE: naive,
    "prefetch": prefetch,
    "interleave": interleave,
    "parallel map": parallel_map,
    "vectorised map": vectorised_map,
    "cache": cache,
    TUNED: tuned,
}


def table_input(root: Path | str) -> Input:
    """Row Examples of the generated table."""
    import tensorflow as tf

    spec = table.specs()
    return Input(
        table.row_files(root),
        lambda record: tf.io.parse_single_example(record, spec),
        lambda records: tf.io.parse_example(records, spec),
        table.BATCH,
        table.SHUFFLED_ROWS,
    )


def image_input(root: Path) -> Input:
    """Row Examples of the generated photos; JPEG images are decoded one by one."""
    parse = photos.jpeg_parser(photos.SIZE)
    return Input(table.row_files(root), parse, None, photos.BATCH, photos.WINDOW)


def _read(step: Callable[[Any], Any], options: Options, *, images: bool, own: bool) -> Measured:
    """Measures a step of the ladder or, if `own` is true, one of Penstock's readers."""
    root = photos.root_of(options.images) if images else table.root_of(options.rows)
    given: Any = root if own else (image_input if images else table_input)(root)
    batches = iter(step(given))
    # The checked pass also fills the cache of the step `cache`.
    if images:
        photos.check(batches, options.images, root, pixels=own)
    else:
        table.check(batches, options.rows, root)
    read = reader(batches)
    return measure(lambda: read(options.seconds))


def prepare(options: Options) -> None:
    """Makes and packs the data, unless it exists."""
    if options.rows:
        table.prepare(options.rows)
    if options.images:
        photos.prepare(options.images)


def groups(options: Options) -> list[Group]:
    """Returns the comparisons on the table and on the images."""
    found = []
    if options.rows:
        given = {"options": options, "images": False}
        ways = {n: bound(_read, step, **given, own=False) for n, step in STEPS.items()}
        for name, read in ((ROWS, table.row_examples), (PACKED, table.packed)):
            ways[name] = bound(_read, read, **given, own=True)
        ours = (
            Check(claims.ROWS_9, ROWS, [NAIVE]),
            Check(claims.PACKED_35, PACKED, [NAIVE]),
            Check(claims.ROWS_TUNED, ROWS, [TUNED]),
            Check(claims.PACKED_8, PACKED, [TUNED]),
        )
        found.append(Group("A table of 40 columns", "rows", ways, (*_checks(ways), *ours)))
    if options.images:
        steps = {n: s for n, s in STEPS.items() if s is not vectorised_map}
        given = {"options": options, "images": True}
        ways = {n: bound(_read, step, **given, own=False) for n, step in steps.items()}
        ways[PACKED] = bound(_read, photos.packed, **given, own=True)
        title = f"JPEG images to {photos.SIZE} x {photos.SIZE}"
        found.append(Group(title, "images", ways, _checks(ways)))
    return found


def _checks(ways: dict[str, Any]) -> list[Check]:
    by = "per_second"
    return [
        Check(claim, name, [base], by)
        for claim, name, base in (
            (claims.INTERLEAVE_FASTER, "interleave", "prefetch"),
            (claims.PARALLEL_MAP_FASTER, "parallel map", "interleave"),
            (claims.VECTORISED_FASTER, "vectorised map", "parallel map"),
            (claims.CACHE_FASTER, "cache", "parallel map"),
            (claims.UP_TO_SEVEN_TIMES, PACKED, NAIVE),
        )
        if name in ways
    ]
