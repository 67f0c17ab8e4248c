"""Reads shards of images as batches of tensors, as fast as images can be decoded.

The stages of the input for training, and what each one does:

    files      are put in a new order for every pass
    records    are read one by one, from several files in parallel
    windows    of records that are not decoded yet are permuted
    images     are decoded and resized, on all cores
    batches    are uint8, which has a quarter of the bytes of float32; the model scales the values

With `cache="memory"`, decoded images are kept, and all of them are permuted together in each pass.

Unlike rows (see `rows.py`), images go from stage to stage one by one. This takes 30 us per image,
which is little compared with 1,000 us for decoding. In blocks, images would be copied at each
stage. Every pass yields every image exactly once and ends before the next begins. Every training
batch is full. A seed decides the order, so a training can resume at any step.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import tensorflow as tf

from penstock.components.tfrecord.example_proto import parse_example
from penstock.components.trainer.input.common import (
    check_memory,
    first_record,
    interleaved,
    parallel_map,
    rows_of_replica,
    tuned,
)
from penstock.components.trainer.input.files import InputFiles, InputSource
from penstock.components.trainer.input.image_decode import StoredImages, decode_whole, stored_as
from penstock.components.trainer.input.input import Input
from penstock.components.trainer.input.options import ImageInputOptions
from penstock.components.trainer.input.passes import (
    InputStart,
    Passes,
    open_passes,
    seeded_shuffle,
    taken_in_turn,
)

_NAMED = (
    "is not an image with a label ({reason}); name their features, as in image='image' and "
    "label='label', or write it with `penstock ingest --kind images`"
)

IMAGE = "image"
"""Name of the model input that receives the images: [batch, height, width, channels]."""

LabelFn = Callable[[Any], Any]

# Number of bytes that a cached image needs besides its pixels: the label, and the overhead of a
# tf.data element.
_OVERHEAD_BYTES = 512


class ImageInput(Input):
    options: ImageInputOptions

    def __init__(
        self,
        source: InputSource,
        options: ImageInputOptions,
        image: str,
        label: str | Sequence[str],
        label_fn: LabelFn | None,
    ) -> None:
        super().__init__(source, options, label_fn)
        self._image, self._label, self._label_fn = image, label, label_fn

    def stored(self, *, split: str = "train") -> StoredImages:
        """Returns how the images are stored, as found in the first record.

        `decode_features` in `serving.py` needs this for the exported model.
        """
        return self._stored(self._files(split))

    def _train(
        self, split: str, start: InputStart | None, context: tf.distribute.InputContext | None
    ) -> tf.data.Dataset:
        files, options = self._files(split), self.options
        parse, batch_size = self._parser(files), rows_of_replica(options, context)
        shares = open_passes(files, options, context=context, start=start)
        if options.cache != "none":
            rows, [passes] = sum(files.counted()), shares
            height, width, channels = options.height, options.width, options.channels
            check_memory(
                rows * (height * width * channels + _OVERHEAD_BYTES),
                f"{rows:,} images of {height}x{width}x{channels}",
                "smaller images, or pack them as pixels",
            )
            kept = parallel_map(_records(files, options), parse).cache()

            def shuffled(number: tf.Tensor) -> tf.data.Dataset:
                # The cache yields the same order in every pass, so its images are shuffled in each
                # pass. The shuffle moves references, not pixels.
                of_pass = seeded_shuffle(kept, rows, passes.seed(number, 0))
                return of_pass.skip(passes.begun(number))

            images = passes.numbers.flat_map(shuffled)
        else:
            streams = [passes.numbers.flat_map(partial(_pass, passes=passes)) for passes in shares]
            images = parallel_map(taken_in_turn(streams, shares[0].step_rows), parse)
        return self._labelled(images.batch(batch_size, drop_remainder=True))

    def _eval(self, split: str) -> tf.data.Dataset:
        files = self._files(split)
        images = parallel_map(_records(files, self.options), self._parser(files))
        return self._labelled(images.batch(self.options.batch_size))

    def _stored(self, files: InputFiles) -> StoredImages:
        label_spec = self._label_spec()

        def parse(record: tf.Tensor) -> StoredImages:
            example = parse_example(record.numpy())
            there = example.context.feature if example else {}
            if not {self._image, *label_spec}.issubset(there):
                has = ", ".join(sorted(there))
                raise tf.errors.InvalidArgumentError(None, None, f"it has {has}")
            tf.io.parse_single_example(record, label_spec)
            return stored_as(there, self._image, self.options)

        return first_record(files, parse, _NAMED)

    def _label_spec(self) -> dict[str, Any]:
        labels = [self._label] if isinstance(self._label, str) else self._label
        return dict.fromkeys(labels, tf.io.FixedLenFeature([], tf.int64))

    def _parser(self, files: InputFiles) -> Callable[[tf.Tensor], Any]:
        stored, label = self._stored(files), self._label
        spec = {**self._label_spec(), **stored.spec}

        def parse(record: tf.Tensor) -> tuple[dict[str, tf.Tensor], Any]:
            features = tf.io.parse_single_example(record, spec)
            raw = features[label] if isinstance(label, str) else {n: features[n] for n in label}
            return {IMAGE: decode_whole(features, stored=stored, options=self.options)}, raw

        return parse

    def _labelled(self, batches: tf.data.Dataset) -> tf.data.Dataset:
        to_label = self._label_fn or (lambda raw: raw)
        return tuned(batches.map(lambda images, raw: (images, to_label(raw))), self.options)


def _records(files: InputFiles, options: ImageInputOptions) -> tf.data.Dataset:
    return interleaved(files, tf.data.TFRecordDataset, options)


def _pass(number: tf.Tensor, passes: Passes) -> tf.data.Dataset:
    """Returns the serialised Examples of a pass, permuted in windows without copying bytes."""
    records, first, drop = passes.read(number, batched=False)
    size = passes.order.window
    windows = tf.data.Dataset.zip((records.window(size), passes.seeds(number, first, drop)))
    return windows.flat_map(
        lambda window, seed_and_drop: seeded_shuffle(window, size, seed_and_drop[0])
    ).skip(drop)
