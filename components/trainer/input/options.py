"""How training and evaluation read their shards: every knob, and why it stands where it does."""

from dataclasses import dataclass

from penstock.components.errors import UsageError
from penstock.components.tfrecord.sharding import READER_PARALLELISM

CACHES = ("none", "memory")
# Records that one file hands over at a time. The hand-over between threads costs about 30 us;
# over 1,024 records that is noise, over one it is five times the parsing of a narrow row.
MAX_BLOCK_ROWS = 1024


@dataclass(frozen=True, kw_only=True)
class InputOptions:
    """What `train_input_fn` and `eval_input_fn` are tuned by.

    Attributes:
        batch_size: Rows a step, over all replicas and workers together.
        interleave_files: Files that are read at the same time; at least 1.
        shuffle_window_rows: Rows that are permuted together; training only. They stay in
            memory serialised, two or three windows of them at a time.
        seed: Any integer gives the same batches in every run, at the cost of waiting for the
            slowest file; None hands over whatever file is ready first.
        cache: `none`, or `memory`: keep the parsed training rows after the first pass. For
            data that fits; features must be of fixed length.
        prefetch_batches: Batches that wait, ready, for the training step; at least 1.
        private_threads: Threads for the input alone; None shares TensorFlow's, one a core.
        ram_budget_mib: What tf.data may take for buffers whose size it tunes itself; None
            leaves it half of the memory that is free. Windows and the cache are not counted.

    Raises:
        UsageError: A value is outside its range.
    """

    batch_size: int
    # As many as ShardOptions plans shards for, so that no file waits for another to end.
    interleave_files: int = READER_PARALLELISM
    # Above the 10,000 records of TFX's stock reader, and still only 10 MB of 600-byte rows.
    # Cut it for big records (images): 512 rows of 100 KB are 50 MB.
    shuffle_window_rows: int = 16_384
    seed: int | None = None
    cache: str = "none"
    # Bridges the start of a new pass over the files (about 10 ms) at a millisecond a step.
    prefetch_batches: int = 8
    private_threads: int | None = None
    ram_budget_mib: int | None = None

    def __post_init__(self) -> None:
        for name in ("batch_size", "interleave_files", "shuffle_window_rows", "prefetch_batches"):
            _require_at_least(name, getattr(self, name), 1)
        for name in ("private_threads", "ram_budget_mib"):
            if getattr(self, name) is not None:
                _require_at_least(name, getattr(self, name), 1)
        if self.cache not in CACHES:
            raise UsageError(f"cache must be one of {', '.join(CACHES)}, got {self.cache!r}")
        if self.seed is not None and not -(2**63) <= self.seed < 2**63:
            raise UsageError(f"seed must be a 64-bit integer or None, got {self.seed}")

    @property
    def block_rows(self) -> int:
        """Records that one file hands over at a time.

        A window holds a block of every file that is being read, so that it mixes all of them.
        """
        return max(1, min(MAX_BLOCK_ROWS, self.shuffle_window_rows // self.interleave_files))


def _require_at_least(name: str, value: int, least: int) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise UsageError(f"{name} must be an integer of at least {least}, got {value!r}")
