"""Options of reading shards in training and evaluation, with the reason for each default."""

from dataclasses import dataclass
from typing import ClassVar

from penstock.components.errors import UsageError
from penstock.components.tfrecord.sharding import READER_PARALLELISM

# Records that one file hands over at a time. The hand-over between threads costs about 30 us;
# over 1,024 records that is noise, over one it is five times the parsing of a narrow row.
MAX_BLOCK_ROWS = 1024


@dataclass(frozen=True, kw_only=True)
class ReadOptions:
    """What inputs of every kind are tuned by.

    Attributes:
        batch_size: Rows a step, over all replicas and workers together.
        interleave_files: Files that are read at the same time; at least 1.
        seed: Any integer gives the same batches in every run; None draws one, which a training's
            checkpoints keep.
        cache: `none`, or where training keeps its rows after the first pass.
        prefetch_batches: Batches that wait, ready, for the training step; at least 1.
        private_threads: Threads for the input alone; None shares TensorFlow's, one a
            core; `train` on CPUs then gives it as many of its own.
        ram_budget_mib: What tf.data may take for buffers whose size it tunes itself; None
            leaves it half of the memory that is free. Windows and the cache are not counted.

    Raises:
        UsageError: A value is outside its range.
    """

    batch_size: int
    # As many as ShardOptions plans shards for, so that no file waits for another to end.
    interleave_files: int = READER_PARALLELISM
    seed: int | None = None
    cache: str = "none"
    # Bridges the start of a new pass over the files (about 10 ms) at a millisecond a step.
    prefetch_batches: int = 8
    private_threads: int | None = None
    ram_budget_mib: int | None = None

    caches: ClassVar[tuple[str, ...]] = ("none", "memory")

    def __post_init__(self) -> None:
        for name in ("batch_size", "interleave_files", "prefetch_batches"):
            self._require_at_least_one(name)
        for name in ("private_threads", "ram_budget_mib"):
            if getattr(self, name) is not None:
                self._require_at_least_one(name)
        self._require_choice("cache", self.caches)
        if self.seed is not None and not -(2**63) <= self.seed < 2**63:
            raise UsageError(f"seed must be a 64-bit integer or None, got {self.seed}")

    def _require_at_least_one(self, name: str) -> None:
        value = getattr(self, name)
        if isinstance(value, bool) or not isinstance(value, int) or value < 1:
            raise UsageError(f"{name} must be an integer of at least 1, got {value!r}")

    def _require_choice(self, name: str, choices: tuple[object, ...]) -> None:
        value = getattr(self, name)
        if value not in choices:
            listed = ", ".join(map(str, choices))
            raise UsageError(f"{name} must be one of {listed}, got {value!r}")


@dataclass(frozen=True, kw_only=True)
class InputOptions(ReadOptions):
    """Options of `train_input_fn` and `eval_input_fn`.

    Attributes:
        shuffle_window_rows: Rows that are permuted together; training only. They stay in
            memory serialised, two or three windows of them at a time.
        cache: `none`, or `memory`: keep the parsed training rows after the first pass. For
            data that fits; features must be of fixed length.

    Raises:
        UsageError: A value is outside its range.
    """

    # Above the 10,000 records of TFX's stock reader, and still only 10 MB of 600-byte rows.
    # Cut it for big records (images): 512 rows of 100 KB are 50 MB.
    shuffle_window_rows: int = 16_384

    def __post_init__(self) -> None:
        super().__post_init__()
        self._require_at_least_one("shuffle_window_rows")

    @property
    def block_rows(self) -> int:
        """Records that one file hands over at a time.

        A window holds a block of every file that is being read, so that it mixes all of them.
        """
        return max(1, min(MAX_BLOCK_ROWS, self.shuffle_window_rows // self.interleave_files))
