"""Images as a `Source`: slices of a shuffled list of files in, record batches out.

Opening it lists and hashes every file and reads the labels, and decodes nothing; what is wrong
with an image is found by the worker that comes to it. The place of an image in the list is a
digest of its name and the seed, so shards mix the classes, and a new image moves no other.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from penstock.components import image_features
from penstock.components.sources.base import Batch, Column, Piece, RejectedRow
from penstock.components.sources.batches import MAX_BATCH_ROWS, batch_of
from penstock.components.sources.images.options import ImageOptions
from penstock.components.sources.images.probe import UnfitImageError
from penstock.components.sources.images.report import ImageReport
from penstock.components.sources.images.storing import StoredImage, store
from penstock.components.sources.whole_files.contents import Contents
from penstock.components.sources.whole_files.rows import cut_list, rejected_file
from penstock.components.sources.whole_files.scan import read_whole
from penstock.components.tfrecord.feature_kind import FeatureKind
from penstock.components.tfrecord.sharding import MIB

IMAGE_COLUMNS = (
    Column(image_features.ENCODED, FeatureKind.BYTES),
    Column(image_features.FORMAT, FeatureKind.BYTES),
    Column(image_features.HEIGHT, FeatureKind.INT),
    Column(image_features.WIDTH, FeatureKind.INT),
    Column(image_features.CHANNELS, FeatureKind.INT),
    Column(image_features.FILENAME, FeatureKind.BYTES),
)
# A file of more is rejected without being read: a worker holds a few whole images, and a record
# ends at 2 GiB.
MAX_FILE_BYTES = 256 * MIB
# As TensorFlow's object detection calls it.
DIGEST_COLUMN = Column("image/key/sha256", FeatureKind.BYTES)
# A worker holds two batches, and each image of them once. What a batch costs of its own, a
# millisecond, is 20 us an image of 75 KB; at 8 MiB an image costs 8 us less.
_BATCH_BYTES = 4 * MIB
# What the size of records is estimated from is decoded to be thrown away.
_FIRST_BATCH_ROWS = 16
# What quarantine keeps of a file, which stays where it is: enough to tell what it is.
_KEPT_BYTES = 64


@dataclass(frozen=True)
class Catalog:
    """What is known of each image before it is read; all parts in the order of the shards.

    Attributes:
        paths: Where it is.
        names: Its path below the input; binary [images].
        sizes: Of the file, in bytes; int64 [images].
        digests: sha256 of the file; binary [images].
        labels: Its label and further columns of the label file [images]; maybe no columns.
    """

    paths: tuple[str, ...]
    names: pa.BinaryArray
    sizes: np.ndarray
    digests: pa.BinaryArray
    labels: pa.RecordBatch

    def __len__(self) -> int:
        return len(self.paths)


@dataclass(frozen=True, eq=False)
class ImageSource:
    """Images, listed and labelled; see `Source` for its other attributes.

    Attributes:
        ignored: Files beside the images, left out.
        rejected_by_scan: Links out of the folder, images without label, labels without image.
        options: Layout and policies.
        catalog: The images.
        report: Classes and duplicates.
        notes: What a person should know of what was taken as what.
    """

    columns: tuple[Column, ...]
    fingerprint: str
    files: tuple[str, ...]
    input_bytes: int
    ignored: tuple[str, ...]
    rejected_by_scan: tuple[RejectedRow, ...]
    options: ImageOptions
    catalog: Catalog
    report: ImageReport
    notes: tuple[str, ...]
    kind: str = "images"

    @property
    def rows(self) -> int:
        """Images, and what was rejected without being read."""
        return len(self.catalog) + len(self.rejected_by_scan)

    def cut(self, parts: int) -> list[tuple[Piece, ...]]:
        """The list of files as `parts` slices of equal length."""
        return cut_list(self.rows, parts)

    def read(self, pieces: Sequence[Piece]) -> Iterator[Batch]:
        """The images of the slices, about 4 MiB in a batch unless one is larger.

        Raises:
            DataError: A file cannot be read, or has changed since it was listed; names it.
        """
        most = _FIRST_BATCH_ROWS
        for piece in pieces:
            made = _BatchMaker(self)
            for at in range(piece.start, piece.end):
                self._take(at, made)
                if made.rows >= most or made.encoded.size >= _BATCH_BYTES:
                    yield made.batch()
                    made, most = _BatchMaker(self), MAX_BATCH_ROWS
            if made.rows:
                yield made.batch()

    def _take(self, at: int, made: "_BatchMaker") -> None:
        """Read one image, or what was rejected before, into a batch."""
        if at >= len(self.catalog):
            made.rejected.append(self.rejected_by_scan[at - len(self.catalog)])
            return
        path, size = self.catalog.paths[at], int(self.catalog.sizes[at])
        data = b""
        try:
            if size > MAX_FILE_BYTES:
                raise UnfitImageError(f"has {size:,} bytes, more than {MAX_FILE_BYTES:,}; not read")
            data = read_whole(path, size)
            made.add(at, store(data, path, self.options))
        except UnfitImageError as error:
            made.rejected.append(rejected_file(path, str(error), data[:_KEPT_BYTES]))


@dataclass
class _BatchMaker:
    """Images on their way into a batch."""

    source: ImageSource
    encoded: Contents = field(default_factory=Contents)
    headers: list[tuple[bytes, int, int, int]] = field(default_factory=list)
    places: list[int] = field(default_factory=list)
    rejected: list[RejectedRow] = field(default_factory=list)

    @property
    def rows(self) -> int:
        return len(self.places) + len(self.rejected)

    def add(self, at: int, image: StoredImage) -> None:
        self.encoded.append(image.encoded)
        self.headers.append((image.format.encode(), image.height, image.width, image.channels))
        self.places.append(at)

    def batch(self) -> Batch:
        """All of it; the images' features, then those of the catalog."""
        catalog, options = self.source.catalog, self.source.options
        places = pa.array(self.places, pa.int64())
        headers = zip(*self.headers, strict=True) if self.headers else [()] * 4
        arrays = [self.encoded.array()]
        for column, values in zip(IMAGE_COLUMNS[1:5], headers, strict=True):
            arrays.append(pa.array(values, column.arrow_type))
        arrays.append(catalog.names.take(places))
        arrays += [column.take(places) for column in catalog.labels.columns]
        digests = catalog.digests.take(places)
        if options.content_digest:
            texts = [digest.hex().encode() for digest in digests.to_pylist()]
            arrays.append(pa.array(texts, pa.binary()))
        table = batch_of(self.source.columns, arrays)
        return Batch(table, tuple(self.rejected), digests=digests)
