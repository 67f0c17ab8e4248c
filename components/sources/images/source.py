"""Images as a `Source`: slices of a shuffled list of files in, record batches out.

Opening it lists and hashes every file and reads the labels, and decodes nothing; what is wrong
with an image is found by the worker that comes to it. The place of an image in the list is a
digest of its name and the seed, so shards mix the classes, and a new image moves no other.
"""

from dataclasses import dataclass, replace

import pyarrow as pa

from penstock.components import image_features
from penstock.components.sources.base import Column, Piece, Source
from penstock.components.sources.batches import take_rows
from penstock.components.sources.images.options import Images
from penstock.components.sources.images.storing import store
from penstock.components.sources.whole_files.rows import RowsMade
from penstock.components.sources.whole_files.source import ListedFiles
from penstock.components.tfrecord.feature_kind import FeatureKind

IMAGE_COLUMNS = (
    Column(image_features.ENCODED, FeatureKind.BYTES),
    Column(image_features.FORMAT, FeatureKind.BYTES),
    Column(image_features.HEIGHT, FeatureKind.INT),
    Column(image_features.WIDTH, FeatureKind.INT),
    Column(image_features.CHANNELS, FeatureKind.INT),
    Column(image_features.FILENAME, FeatureKind.BYTES),
)
# As TensorFlow's object detection calls it.
DIGEST_COLUMN = Column("image/key/sha256", FeatureKind.BYTES)


@dataclass(frozen=True, eq=False, kw_only=True)
class ImageSource(ListedFiles):
    """Images, listed and labelled.

    Rejected by the scan are links out of the folder, images without label and labels without image.
    `labels` has the label and further columns of the label file, a row an image.
    """

    # What the size of records is estimated from is decoded to be thrown away.
    first_rows = 16

    options: Images
    labels: pa.RecordBatch

    def part(self, pieces: tuple[Piece, ...]) -> tuple[Source, tuple[Piece, ...]]:
        """See `ListedFiles`."""
        source, own = super().part(pieces)
        first, end = (pieces[0].start, pieces[-1].end) if pieces else (0, 0)
        labels = take_rows(self.labels, range(first, min(end, self.labels.num_rows)))
        return replace(source, labels=labels), own  # type: ignore[call-arg]

    def _add(self, at: int, data: bytes, made: RowsMade) -> None:
        image = store(data, self.listed.paths[at], self.options)
        facts = (image.format.encode(), image.height, image.width, image.channels)
        made.add(at, image.encoded, facts)

    def _features(self, made: RowsMade, places: pa.Array) -> dict[str, pa.Array]:
        """The images' own features, then those of the list and the label file."""
        headers = zip(*made.facts, strict=True) if made.facts else [()] * 4
        found = {
            column.name: pa.array(values, column.arrow_type)
            for column, values in zip(IMAGE_COLUMNS[1:5], headers, strict=True)
        }
        found[image_features.FILENAME] = self.listed.names.take(places)
        for name, column in zip(self.labels.schema.names, self.labels.columns, strict=True):
            found[name] = column.take(places)
        if self.options.content_digest:
            digests = self.listed.digests.take(places).to_pylist()
            texts = [digest.hex().encode() for digest in digests]
            found[DIGEST_COLUMN.name] = pa.array(texts, pa.binary())
        return found
