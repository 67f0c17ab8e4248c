"""The gain of each step from a naive reader to packed records, on a table and on images.

Naive, prefetch, interleave, parallel map, whole batches, cache; tf.data tuned as well as may
be, shuffled; and Penstock's own: row Examples by `Input.rows`, and packed.

    penstock bench ladder
    penstock bench ladder --examples shards --rows 0 --images 0     on your own row Examples
"""

import json
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from penstock.benchmarks import claims, questions
from penstock.benchmarks import packed as tables
from penstock.benchmarks import packed_images as images
from penstock.benchmarks.harness import Measured, in_turn, measure
from penstock.benchmarks.input import specs
from penstock.benchmarks.outcome import Comparison, Contender, Outcome
from penstock.benchmarks.reading import reader
from penstock.components.errors import UsageError
from penstock.components.tfrecord.manifest import read_manifest

TABLE_BATCH = 1024
IMAGE_BATCH = 32
SIZE = 299
CYCLE = 8
SHUFFLED_ROWS, SHUFFLED_IMAGES = 16_384, 256
TUNED, ROWS, PACKED = "tf.data, tuned", "row Examples", "packed"


@dataclass(frozen=True)
class LadderOptions:
    """What is read, and how often.

    Attributes:
        rows: Rows of the made table of 40 columns; 0 leaves the table out.
        images: Made JPEG images of 375 x 500; 0 leaves them out.
        examples: Folder of row Examples of your own, read as the table is.
        seconds: How long each contender reads in each round.
        rounds: How often each contender runs.
    """

    rows: int = 131_072
    images: int = 512
    examples: str | None = None
    seconds: float = 2.5
    rounds: int = 3

    def __post_init__(self) -> None:
        if self.rows % TABLE_BATCH or self.images % IMAGE_BATCH or min(self.rows, self.images) < 0:
            raise UsageError(
                f"rows must be a multiple of {TABLE_BATCH} and images of {IMAGE_BATCH}, got "
                f"{self.rows} and {self.images}"
            )
        if self.rounds < 1 or self.seconds <= 0:
            raise UsageError("rounds must be at least 1, and seconds more than 0")
        if not (self.rows or self.images or self.examples):
            raise UsageError("nothing to measure: rows and images are 0, and there are no examples")


@dataclass(frozen=True)
class Input:
    """What a contender reads: files of row Examples, how one is parsed, and their packed copy.

    Rows are shuffled in a buffer, or a window, of `shuffled`.
    """

    files: list[str]
    spec: dict[str, Any]
    parse_one: Callable[[Any], Any]
    parse_batch: Callable[[Any], Any] | None
    packed: str | None
    batch: int
    shuffled: int


def naive(given: Input) -> Any:
    """One file after another, one record after another."""
    import tensorflow as tf

    return tf.data.TFRecordDataset(given.files).map(given.parse_one).batch(given.batch).repeat()


def prefetch(given: Input) -> Any:
    """The same, with batches made ahead."""
    return naive(given).prefetch(8)


def interleave(given: Input) -> Any:
    """Files read in parallel, ahead of the step."""
    return _interleaved(given).map(given.parse_one).batch(given.batch).repeat().prefetch(8)


def parallel_map(given: Input) -> Any:
    """And records parsed in parallel."""
    import tensorflow as tf

    rows = _interleaved(given).map(
        given.parse_one, num_parallel_calls=tf.data.AUTOTUNE, deterministic=False
    )
    return rows.batch(given.batch).repeat().prefetch(8)


def vectorised_map(given: Input) -> Any:
    """Whole batches parsed at once."""
    import tensorflow as tf

    batches = _interleaved(given).batch(given.batch)
    return batches.map(
        given.parse_batch, num_parallel_calls=tf.data.AUTOTUNE, deterministic=False
    ).repeat().prefetch(8)  # fmt: skip


def cache(given: Input) -> Any:
    """Kept in memory once parsed."""
    import tensorflow as tf

    rows = _interleaved(given).map(
        given.parse_one, num_parallel_calls=tf.data.AUTOTUNE, deterministic=False
    )
    return rows.batch(given.batch).cache().repeat().prefetch(8)


def tuned(given: Input) -> Any:
    """Files and rows shuffled, parsed in parallel and ahead: the best of several ways here."""
    import tensorflow as tf

    files = tf.data.Dataset.from_tensor_slices(given.files).shuffle(len(given.files))
    # Read by one thread: to hand over each record from others, as the guide to performance has it,
    # takes four times the CPU here (22 us a row where this takes 5.6), and AUTOTUNE keeps to it.
    rows = files.interleave(tf.data.TFRecordDataset, cycle_length=CYCLE).shuffle(given.shuffled)
    parallel = {"num_parallel_calls": tf.data.AUTOTUNE, "deterministic": False}
    if given.parse_batch:
        batches = rows.batch(given.batch).map(given.parse_batch, **parallel)
    else:
        batches = rows.map(given.parse_one, **parallel).batch(given.batch)
    return batches.repeat().prefetch(tf.data.AUTOTUNE)


def row_examples(given: Input) -> Any:
    """Penstock's row Examples, shuffled."""
    from penstock.components.trainer.input.input import Input
    from penstock.components.trainer.input.options import InputOptions

    return Input.rows(given.files, given.spec, options=InputOptions(batch_size=given.batch)).train()


def packed(given: Input) -> Any:
    """Penstock's packed records, shuffled."""
    from penstock.components.trainer.input.input import Input
    from penstock.components.trainer.input.options import InputOptions

    options = InputOptions(batch_size=given.batch, shuffle_window_rows=given.shuffled)
    return Input.packed(str(given.packed), options=options).train()


def _interleaved(given: Input) -> Any:
    import tensorflow as tf

    return tf.data.Dataset.from_tensor_slices(given.files).interleave(
        tf.data.TFRecordDataset,
        cycle_length=CYCLE,
        num_parallel_calls=tf.data.AUTOTUNE,
        deterministic=False,
    )


STEPS: dict[str, Callable[[Input], Any]] = {
    "naive": naive,
    "prefetch": prefetch,
    "interleave": interleave,
    "parallel map": parallel_map,
    "vectorised map": vectorised_map,
    "cache": cache,
    TUNED: tuned,
    ROWS: row_examples,
    PACKED: packed,
}


def table_input(root: Path) -> Input:
    """The made table of `packed.prepare`."""
    return _rows_input(tables.row_files(root), specs(), root / "strings")


def image_input(root: Path) -> Input:
    """The made images of `packed_images.prepare`; JPEG are decoded one by one."""
    spec, parse = images.jpeg_parser(SIZE)
    packed = str(root / f"packed-{SIZE}")
    return Input(tables.row_files(root), spec, parse, None, packed, IMAGE_BATCH, SHUFFLED_IMAGES)


def own_input(root: Path) -> Input:
    """The user's row Examples, typed by their manifest, and their packed copy."""
    import tensorflow as tf

    folder = Path((root / "examples.txt").read_text())
    manifest = read_manifest(folder)
    kinds = {"INT": (tf.int64, 0), "FLOAT": (tf.float32, 0.0), "BYTES": (tf.string, "")}
    spec: dict[str, Any] = {}
    for column in manifest.columns:
        dtype, default = kinds[column.kind]
        lists, one = tf.io.VarLenFeature(dtype), tf.io.FixedLenFeature([1], dtype, [default])
        spec[column.name] = lists if column.is_list else one
    files = [str(folder / shard.file) for shard in next(iter(manifest.splits.values()))]
    return _rows_input(files, spec, root / "packed")


def _rows_input(files: list[str], spec: dict[str, Any], packed: Path) -> Input:
    import tensorflow as tf

    return Input(
        files,
        spec,
        lambda record: tf.io.parse_single_example(record, spec),
        lambda records: tf.io.parse_example(records, spec),
        str(packed),
        TABLE_BATCH,
        SHUFFLED_ROWS,
    )


INPUTS: dict[str, Callable[[Path], Input]] = {
    "table": table_input,
    "images": image_input,
    "examples": own_input,
}


def steps_of(what: str) -> list[str]:
    """The steps that make sense: images are decoded one by one."""
    return [name for name in STEPS if what != "images" or name not in ("vectorised map", ROWS)]


def _child(what: str, step: str, root: Path, seconds: float) -> Measured:
    given = INPUTS[what](root)
    batches = iter(STEPS[step](given))
    _check(what, step, batches, root)
    read = reader(batches)
    return measure(lambda: read(seconds))


def _check(what: str, step: str, batches: Iterator[Any], root: Path) -> None:
    """A first pass, held against the sums of all rows; it also fills the cache."""
    if what == "table":
        sums = json.loads((root / "sums.json").read_text())
        tables.check(batches, int(root.name.rpartition("-")[2]), sums)
    elif what == "images":
        images.check(step, batches, int(root.name.rpartition("-")[2]), root)
    elif step == "cache":
        rows = int((root / "rows.txt").read_text())
        while rows > 0:
            rows -= _rows(next(batches))


def _rows(batch: Any) -> int:
    feature = next(iter(batch.values()))
    return int(getattr(feature, "dense_shape", feature.shape)[0])


def prepare(options: LadderOptions) -> None:
    """Make or pack what is read, unless it is there."""
    folder = questions.data_folder()
    if options.rows:
        tables.prepare(folder, options.rows)
    if options.images:
        images.prepare(folder, options.images)
    if options.examples:
        _prepare_own(Path(options.examples), folder / "own")


def _prepare_own(examples: Path, root: Path) -> None:
    import shutil

    from penstock.components.packing.options import PackOptions
    from penstock.components.packing.pack import pack

    manifest = read_manifest(examples)
    split = next(iter(manifest.splits))
    shutil.rmtree(root, ignore_errors=True)
    root.mkdir(parents=True)
    (root / "examples.txt").write_text(str(examples.resolve()))
    (root / "rows.txt").write_text(str(manifest.account.written[split]))
    pack(str(examples), root / "packed", PackOptions())


def run(options: LadderOptions) -> Outcome:
    """Climb the ladder."""
    began = time.perf_counter()
    if options.images:
        questions.need("PIL")
    if options.examples:
        read_manifest(Path(options.examples))  # before minutes are spent on the made data
    questions.prepare(__file__, options)
    folder = questions.data_folder()
    comparisons = [
        _climb(what, title, unit, root, options)
        for wanted, what, title, unit, root in (
            (options.rows, "table", "A table of 40 columns", "rows",
             folder / f"packed-{options.rows}"),
            (options.images, "images", f"JPEG images to {SIZE} x {SIZE}", "images",
             images.root_of(folder, options.images)),
            (options.examples, "examples", f"{options.examples}", "rows", folder / "own"),
        )
        if wanted
    ]  # fmt: skip
    verdicts = [verdict for one in comparisons for verdict in _verdicts(one)]
    return Outcome(
        question="ladder",
        title="What each step of the input pipeline gains",
        setting=_setting(options),
        comparisons=comparisons,
        verdicts=verdicts,
        seconds=time.perf_counter() - began,
    )


def _climb(what: str, title: str, unit: str, root: Path, options: LadderOptions) -> Comparison:
    arguments = questions.job_arguments(what=what, root=str(root), seconds=options.seconds)
    names = steps_of(what)
    results = in_turn(__file__, [(name, arguments) for name in names], options.rounds)
    return Comparison(
        title, unit, [Contender.of(n, results[n], questions.first_line(STEPS[n])) for n in names]
    )


def _verdicts(one: Comparison) -> list[claims.Judgement]:
    found = []
    names = [contender.name for contender in one.contenders]
    for claim, name, base in (
        (claims.INTERLEAVE_FASTER, "interleave", "prefetch"),
        (claims.PARALLEL_MAP_FASTER, "parallel map", "interleave"),
        (claims.VECTORISED_FASTER, "vectorised map", "parallel map"),
        (claims.CACHE_FASTER, "cache", "parallel map"),
        (claims.UP_TO_SEVEN_TIMES, PACKED, "naive"),
    ):
        if name in names:
            how = f"{one.title}: {one.unit}/s, {name} to {base}"
            found.append(claims.judge(claim, one.rate_ratio(name, to=base), how))
    if one.unit == "rows":
        for claim, name, base in (
            (claims.ROWS_9, ROWS, "naive"),
            (claims.PACKED_35, PACKED, "naive"),
            (claims.ROWS_TUNED, ROWS, TUNED),
            (claims.PACKED_8, PACKED, TUNED),
        ):
            how = f"{one.title}: CPU time a row, {base} to {name}"
            found.append(claims.judge(claim, one.cpu_ratio(name, to=base), how))
    return found


def _setting(options: LadderOptions) -> list[str]:
    made = []
    if options.rows:
        made.append(f"{options.rows:,} made rows of 20 floats, 12 integers and 8 texts, 16 files")
    if options.images:
        made.append(f"{options.images:,} made JPEG images of 375 x 500, 8 files")
    return [
        *made,
        f"medians of {options.rounds} rounds of {options.seconds:g} s, each contender a process of "
        "its own, in turn; a first pass of each is checked and not counted",
        "files are in the page cache: this is the cost of decoding, not of the disk",
        "each step keeps those before it, but the cache, which keeps what the parallel map made",
        f"{TUNED}, {ROWS} and {PACKED} shuffle, all in {SHUFFLED_ROWS:,} rows and "
        f"{SHUFFLED_IMAGES} images",
    ]


def _contend(step: str, job: dict[str, Any]) -> dict[str, Any]:
    return asdict(_child(job["what"], step, Path(job["root"]), job["seconds"]))


if __name__ == "__main__":
    questions.answer_child(LadderOptions, prepare, _contend)
