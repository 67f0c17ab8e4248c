"""Options of reading images in training and evaluation, with the reason for each default."""

from dataclasses import dataclass
from typing import ClassVar

from penstock.components.errors import UsageError
from penstock.components.trainer.input.options import ReadOptions

FITS = ("crop", "stretch")
CROPS = ("none", "random")


@dataclass(frozen=True, kw_only=True)
class ImageInputOptions(ReadOptions):
    """Options of `train_image_input_fn` and `eval_image_input_fn`.

    Attributes:
        height: Of what the model sees, in pixels.
        width: Of what the model sees, in pixels.
        channels: 3 (RGB) or 1 (gray); images with another number are converted.
        fit: How a whole image comes to that height and width: `crop` cuts what is beyond their
            proportions from both sides, `stretch` resizes all of it. Give what the images were
            ingested with, if they were resized then, so that serving does the same.
        crop: The part of an image that training takes before resizing: `none`, the whole, or
            `random`, another part of it each time; of a JPEG only that part is decoded.
            Evaluation and serving always take the whole.
        min_crop_area: Least share of an image's area that `random` takes, above 0 and at most 1.
        scaled_decode: Whether a JPEG, or its part, of at least twice the size is decoded at a half,
            a quarter or an eighth of its own, in training and serving: for photos of 1,000 pixels
            and more, faster, in less memory, and nearer to a mean of all their pixels.
        shuffle_window_images: Stored images that wait to be drawn from; training only.
        cache: Where training keeps decoded images after the first pass: `none`, `memory` or
            `disk`. Refused where they do not fit.
        cache_dir: Folder on a disk of this machine, for `disk`; removed when the process ends.

    Raises:
        UsageError: A value is outside its range, or two do not go together.
    """

    height: int
    width: int
    channels: int = 3
    fit: str = "crop"
    crop: str = "none"
    # As TensorFlow's own Inception and ResNet training crop, from 8 % up; more keeps the subject.
    min_crop_area: float = 0.35
    # Of 4,000 x 3,000 to 299 it takes 0.7 of the CPU time, of 1,600 x 1,200 0.9; where no image is
    # large enough, the choice costs 5 to 10 %.
    scaled_decode: bool = False
    # Images are shuffled at ingest, so that a window need only break up the order of one pass and
    # the next. 1,024 of 85 KB leave the CPU's caches, which costs 3 % of the rate, decoded 15 %.
    shuffle_window_images: int = 256
    cache_dir: str | None = None
    # A batch of 32 images of 299 x 299 is 8.6 MB.
    prefetch_batches: int = 4

    caches: ClassVar[tuple[str, ...]] = ("none", "memory", "disk")

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("height", "width", "shuffle_window_images"):
            self._require_at_least_one(name)
        if self.channels not in (1, 3):
            raise UsageError(f"channels must be 1 or 3, got {self.channels!r}")
        self._require_choice("fit", FITS)
        self._require_choice("crop", CROPS)
        if not 0 < self.min_crop_area <= 1:
            raise UsageError(f"min_crop_area must be within 0..1, got {self.min_crop_area}")
        self._check_cache()

    def _check_cache(self) -> None:
        if self.cache != "none" and self.crop == "random":
            raise UsageError(
                f"cache {self.cache!r} keeps images as they were cut once, crop 'random' cuts them "
                "anew each time: use cache 'none', or crop 'none' and an augmentation's shift"
            )
        if (self.cache == "disk") != (self.cache_dir is not None):
            raise UsageError(
                "cache_dir and cache 'disk' go together: a folder on a disk of this machine; "
                f"got cache {self.cache!r} and cache_dir {self.cache_dir!r}"
            )
