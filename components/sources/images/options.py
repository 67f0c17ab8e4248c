"""Options for images and their labels, as one dataclass that is stored as JSON."""

from dataclasses import dataclass

from penstock.components.errors import UsageError
from penstock.components.limits import check_numbers
from penstock.components.sources.options import KindOptions, check_fields

_CHOICES = {
    "layout": ("bytes", "resized", "decoded"),
    "fit": ("crop", "pad", "stretch", "shortest"),
    "encoding": ("jpeg", "png"),
    "alpha": ("white", "black", "drop"),
    "unlabelled": ("reject", "keep", "drop"),
    "missing_images": ("reject", "drop"),
    "verify": ("header", "decode"),
}
# Pillow refuses to decode more pixels than this, which is twice the number at which it warns.
MOST_PIXELS = 178_956_970


@dataclass(frozen=True)
class Images(KindOptions):
    """Images below a folder, and their labels; docs/images.md describes how they are stored.

    Attributes:
        kind: `images`.
        labels_file: CSV, JSON or MATLAB file that maps file names to classes. Without one, the
            class is the folder right below the input, and classes are numbered from 0 in the order
            of their names.
        class_names_file: Text file (one name per line), JSON list or MATLAB file (variable
            `class_names`) with the names of all classes in order. With this file, class numbers do
            not depend on the classes that an input contains.
        file_column: Column of the label file with the name of the image; by default, one with a
            usual name such as `file_name`.
        label_column: Column of the label file with the class; by default, one with a usual name
            such as `label`.
        text_column: Column of the label file with the class in words; by default, one with a usual
            name such as `class_name`.
        labels_variable: Struct array of a MATLAB file, or key of a JSON file, that contains the
            rows; by default the vectors of the MATLAB file, or the list at the top of the JSON
            file.
        unlabelled: Treatment of an image without a label: `reject` it as a bad row, `keep` it, or
            `drop` it.
        missing_images: Treatment of a label without an image: `reject` it as a bad row, or `drop`
            it.
        layout: Store files as their `bytes`, or `resized` and encoded again, or `decoded` to uint8.
        size: Side in pixels of `resized` images; if given, also of `decoded` images.
        fit: Method of resizing: `crop` the centre, `pad` with black, `stretch`, or scale the
            `shortest` side to the size without cutting.
        channels: 3 (RGB) or 1 (gray), of `resized` and `decoded` images.
        encoding: `jpeg` or `png`, of `resized` images.
        jpeg_quality: Quality, 1 to 100, of each JPEG that is written.
        alpha: Background of transparent pixels: `white`, `black`, or `drop` to ignore alpha.
        max_pixels: Maximum number of pixels of an image; a larger image is rejected before it is
            decoded.
        verify: `header` finds truncated files; `decode` decodes every image, in any layout.
        content_digest: Add the feature `image/key/sha256`, the digest of the file.
        shuffle_seed: Seed of the order of the images in the shards.
    """

    kind: str = "images"
    labels_file: str | None = None
    class_names_file: str | None = None
    file_column: str | None = None
    label_column: str | None = None
    text_column: str | None = None
    labels_variable: str | None = None
    unlabelled: str = "reject"
    missing_images: str = "reject"
    layout: str = "bytes"
    size: int | None = None
    fit: str = "crop"
    channels: int = 3
    encoding: str = "jpeg"
    jpeg_quality: int = 95
    alpha: str = "white"
    max_pixels: int = 89_478_485
    verify: str = "header"
    content_digest: bool = False
    shuffle_seed: int = 0

    def __post_init__(self) -> None:
        if self.channels not in (1, 3):
            raise UsageError(f"`channels` must be 1 or 3, got {self.channels!r}")
        check_fields(self, **_CHOICES)
        check_numbers(self, jpeg_quality=(1, 100), max_pixels=(1, MOST_PIXELS))
        self._check_size()
        if self.labels_file is None:
            for name in ("file_column", "label_column", "text_column", "labels_variable"):
                if getattr(self, name) is not None:
                    raise UsageError(f"`{name}` needs a label file; give `labels_file` as well")

    def _check_size(self) -> None:
        if self.size is not None:
            check_numbers(self, size=1)
            if self.layout == "bytes":
                raise UsageError(
                    "`size` needs `layout='resized'` or 'decoded'; 'bytes' keeps files"
                )
            if self.size**2 > self.max_pixels:
                raise UsageError(
                    f"`size` must be at most the root of `max_pixels` {self.max_pixels}, "
                    f"got {self.size}"
                )
        elif self.layout == "resized":
            raise UsageError("`layout='resized'` needs a size in pixels, as `size=299`")
