"""Options of the training input, with the reason for each default. Imports no TensorFlow."""

from dataclasses import dataclass

from penstock.components.errors import UsageError
from penstock.components.limits import check_choices, check_numbers
from penstock.components.readers.order import SHUFFLE_WINDOW_ROWS, block_rows_of
from penstock.components.tfrecord.sharding import READER_PARALLELISM

CACHES = ("none", "memory")
FITS = ("crop", "stretch")
CROPS = ("none", "random")


@dataclass(frozen=True, kw_only=True)
class InputOptions:
    """Options of reading rows or packed records, in training and evaluation.

    Attributes:
        batch_size: Rows in a step, over all replicas and workers together.
        shuffle_window_rows: Rows that are permuted together; training only. Two or three windows
            of serialised rows stay in memory.
        interleave_files: Files that are read at the same time; at least 1.
        seed: Any integer gives the same batches in every run; None draws one, which the
            checkpoints of a training keep.
        cache: `none`, or `memory`: keep the parsed training rows after the first pass. For
            data that fits; features must be of fixed length.
        prefetch_batches: Finished batches that wait for the training step; at least 1.
        private_threads: Threads for the input alone; None shares TensorFlow's, one per
            core, and `train` on CPUs then gives the input as many of its own.
        ram_budget_mib: Memory that tf.data may take for buffers whose size it tunes itself; None
            allows half of the free memory. Windows and the cache are not counted.
        shares: Equal parts that every pass is cut into when a training begins. Any number of
            workers that divides it can read them, and a resumed training may have another such
            number. None takes the number of workers at the beginning.

    Raises:
        UsageError: A value is outside its range.
    """

    batch_size: int
    # Cut it for big records: 512 rows of 100 KB are 50 MB.
    shuffle_window_rows: int = SHUFFLE_WINDOW_ROWS
    # The number of shards that ShardOptions plans for, so that no file waits for another.
    interleave_files: int = READER_PARALLELISM
    seed: int | None = None
    cache: str = "none"
    # Bridges the start of a new pass over the files (about 10 ms) at a millisecond per step.
    prefetch_batches: int = 8
    private_threads: int | None = None
    ram_budget_mib: int | None = None
    # Each share is a stream of its own: 8 on one worker read 8 times as many files side by side.
    shares: int | None = None

    def __post_init__(self) -> None:
        check_numbers(self, batch_size=1, shuffle_window_rows=1, interleave_files=1)
        check_numbers(self, prefetch_batches=1, private_threads=1, ram_budget_mib=1, shares=1)
        check_choices(self, cache=CACHES)
        if self.seed is not None and not -(2**63) <= self.seed < 2**63:
            raise UsageError(f"seed must be a 64-bit integer or None, got {self.seed}")

    @property
    def block_rows(self) -> int:
        """Records that one file hands over at a time."""
        return block_rows_of(self.shuffle_window_rows, self.interleave_files)


@dataclass(frozen=True, kw_only=True)
class ImageInputOptions(InputOptions):
    """Options of reading images, in training and evaluation; see also `InputOptions`.

    Attributes:
        height: Height of the model's images, in pixels.
        width: Width of the model's images, in pixels.
        channels: 3 (RGB) or 1 (gray); images with another number are converted.
        fit: Way in which a whole image gets that height and width: `crop` first cuts both sides
            to their proportions, `stretch` resizes all of it. If the images were resized
            at ingest, use the same here, so that serving does the same.
        crop: The part of an image that training takes before resizing: `none` for the whole, or
            `random` for another part each time; only that part of a JPEG is decoded.
            Evaluation and serving always take the whole.
        min_crop_area: Least share of an image's area that `random` takes, above 0 and at most 1.
        scaled_decode: Whether a JPEG, or its part, of at least twice the size is decoded at a half,
            a quarter or an eighth of its size, in training and serving: for photos of 1,000 pixels
            and more, faster, in less memory, and nearer to a mean of all their pixels.
        shuffle_window_rows: Stored images that are shuffled together; training only.
        cache: `none`, or `memory`: keep decoded images after the first pass of training. Refused if
            they do not fit.

    Raises:
        UsageError: A value is outside its range, or two do not go together.
    """

    height: int
    width: int
    channels: int = 3
    fit: str = "crop"
    crop: str = "none"
    # TensorFlow's own Inception and ResNet training takes 8 %; more keeps the subject in the crop.
    min_crop_area: float = 0.35
    # From 4,000 x 3,000 to 299 it takes 0.7 of the CPU time, from 1,600 x 1,200 0.9; where no image
    # is large enough, the choice costs 5 to 10 %.
    scaled_decode: bool = False
    # Images are shuffled at ingest, so that a window need only break up the order of one pass and
    # the next. 1,024 of 85 KB leave the CPU's caches, which costs 3 % of the rate, decoded 15 %.
    shuffle_window_rows: int = 256
    # A batch of 32 images of 299 x 299 is 8.6 MB.
    prefetch_batches: int = 4

    def __post_init__(self) -> None:
        super().__post_init__()
        check_numbers(self, height=1, width=1)
        check_choices(self, channels=(1, 3), fit=FITS, crop=CROPS)
        if not 0 < self.min_crop_area <= 1:
            raise UsageError(f"min_crop_area must be within 0..1, got {self.min_crop_area}")
        if self.cache != "none" and self.crop == "random":
            raise UsageError(
                f"cache {self.cache!r} keeps images as they were cut once, crop 'random' cuts them "
                "differently each time: use cache 'none', or crop 'none' and an augmentation's "
                "shift"
            )

    @property
    def block_rows(self) -> int:
        """1: the hand-over of 30 us is little beside the 1,000 us of decoding an image."""
        return 1
