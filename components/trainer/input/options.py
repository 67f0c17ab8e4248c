"""Options of the training input, with reasons for several defaults.

This module does not import TensorFlow.
"""

from dataclasses import dataclass

from penstock.components.errors import UsageError
from penstock.components.limits import check_choices, check_numbers
from penstock.components.tfrecord.sharding import (
    READER_PARALLELISM,
    SHUFFLE_WINDOW_ROWS,
    block_rows_of,
)

CACHES = ("none", "memory")
FITS = ("crop", "stretch")


@dataclass(frozen=True, kw_only=True)
class InputOptions:
    """Options for reading rows or packed records, in training and evaluation.

    Attributes:
        batch_size: Number of rows per step, over all replicas and workers together.
        shuffle_window_rows: Number of rows that are permuted together; training only. Two or three
            windows of serialised rows are in memory at a time.
        interleave_files: Number of files to read at the same time; at least 1.
        seed: An integer gives the same batches in every run; with None, a seed is drawn and stored
            in the checkpoints of the training.
        cache: `none`; or `memory`, which keeps parsed training rows, or blocks of packed shards,
            after the first pass. The rows must fit into memory, and features of parsed rows must
            have a fixed length.
        prefetch_batches: Number of finished batches to keep ready for the training step; at least
            1. If batches are made in groups, the number is rounded up to whole groups.
        private_threads: Number of threads that only the input uses; None shares TensorFlow's, one
            per core.
        ram_budget_mib: Memory, in MiB, for the buffers whose size tf.data tunes itself; None
            allows half of the free memory. Windows and the cache take additional memory.
        shares: Number of equal parts into which each pass is cut; it is fixed when a training
            begins. The number of workers must divide the number of shares, but may change when the
            training resumes. None uses the number of workers at the start of the training.

    Raises:
        UsageError: A value is outside its range.
    """

    batch_size: int
    # For large records, set a smaller window; for example, 512 rows of 100 KB take 50 MB.
    shuffle_window_rows: int = SHUFFLE_WINDOW_ROWS
    # `plan_shards` plans at least this number of shards for data of at least MIN_SHARD_BYTES, so
    # that there are enough files to read at the same time.
    interleave_files: int = READER_PARALLELISM
    seed: int | None = None
    cache: str = "none"
    # If a step takes a millisecond, 8 batches roughly bridge the start of a new pass, which takes
    # about 10 ms.
    prefetch_batches: int = 8
    private_threads: int | None = None
    ram_budget_mib: int | None = None
    # Each share is a separate stream, so one worker with 8 shares reads 8 times as many files at
    # once as with one share.
    shares: int | None = None

    def __post_init__(self) -> None:
        check_numbers(self, batch_size=1, shuffle_window_rows=1, interleave_files=1)
        check_numbers(self, prefetch_batches=1, private_threads=1, ram_budget_mib=1, shares=1)
        check_choices(self, cache=CACHES)
        if self.seed is not None and not -(2**63) <= self.seed < 2**63:
            raise UsageError(f"seed must be a 64-bit integer or None, got {self.seed}")

    @property
    def block_rows(self) -> int:
        """Number of records that one thread passes to the next together."""
        return block_rows_of(self.shuffle_window_rows, self.interleave_files)


@dataclass(frozen=True, kw_only=True)
class ImageInputOptions(InputOptions):
    """Options for reading images, in training and evaluation; see also `InputOptions`.

    Attributes:
        height: Height of the model's images, in pixels.
        width: Width of the model's images, in pixels.
        channels: 3 (RGB) or 1 (gray); images with another number are converted.
        fit: How an image is brought to this height and width. `crop` first cuts it to the
            proportions of the target size; `stretch` resizes it without cutting. If ingest resized
            the images, use its `fit` here, too, so that served images are treated in the same way.
        scaled_decode: Whether a JPEG of at least twice the wanted size is decoded at 1/2, 1/4 or
            1/8 of its size, in training and serving. For photos with sides of 1,000 pixels or more,
            this is faster, takes less memory, and averages neighbouring pixels.
        shuffle_window_rows: Number of stored images to shuffle together; training only.
        cache: `none`; or `memory`, which keeps decoded images after the first pass of training. It
            is an error if they do not fit into memory.

    Raises:
        UsageError: A value is outside its range.
    """

    height: int
    width: int
    channels: int = 3
    fit: str = "crop"
    # With this option, decoding to 299 x 299 takes 0.7 times the CPU time for images of 4,000 x
    # 3,000, and 0.9 times for images of 1,600 x 1,200. If no image is large enough, it takes 5 to
    # 10 % more CPU time, because the size of each image is checked.
    scaled_decode: bool = False
    # Ingest shuffles images, so a window only needs to make the order of two passes differ. A
    # window of 1,024 images of 85 KB exceeds the CPU's caches, which costs 3 % of the rate.
    # Shuffling decoded images would cost 15 %.
    shuffle_window_rows: int = 256
    # A batch of 32 images of 299 x 299 takes 8.6 MB, so fewer batches are prefetched than for rows.
    prefetch_batches: int = 4

    def __post_init__(self) -> None:
        super().__post_init__()
        check_numbers(self, height=1, width=1)
        check_choices(self, channels=(1, 3), fit=FITS)

    @property
    def block_rows(self) -> int:
        """Returns 1: handing an image to another thread takes 30 us; decoding it, 1,000 us."""
        return 1
