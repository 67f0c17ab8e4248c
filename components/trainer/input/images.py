"""Shards of images in, batches of tensors out, as fast as images decode.

The chain for training, with what each link is for:

    files      order shuffled every pass
    records    files interleaved in threads, one image at a time
    windows    permuted, still as they are stored
    images     decoded, cut and resized, one a core at a time
    (cache)    decoded images, where there is room for them
    batches    uint8: a quarter of what float32 takes to the device; the model scales them

An image is handed over by itself, unlike a row (see `input_fn`): the hand-over of 30 us is
little beside the decoding of 1,000, while blocks would copy their bytes again at each link.
Every pass gives every image exactly once and is over before the next begins, every training
batch is full, and a seed decides the order, so that a training goes on at any step.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import tensorflow as tf

from penstock.components import image_features as names
from penstock.components.tfrecord.example_proto import parse_example
from penstock.components.trainer.input.cache import cached
from penstock.components.trainer.input.common import (
    first_record,
    interleaved,
    parallel_map,
    paths_of,
    rows_of_replica,
    share_of_worker,
    tuned,
)
from penstock.components.trainer.input.facts import facts_of
from penstock.components.trainer.input.files import InputFiles, InputSource, find_input
from penstock.components.trainer.input.image_decode import decode_random_part, decode_whole
from penstock.components.trainer.input.image_options import ImageInputOptions
from penstock.components.trainer.input.image_storage import StoredImages, stored_as
from penstock.components.trainer.input.passes import (
    ENDLESS,
    Passes,
    numbered,
    open_passes,
    seeded_shuffle,
)
from penstock.components.trainer.input.read_errors import keeps_source
from penstock.components.trainer.input.start import InputStart
from penstock.components.trainer.utilisation.record import InputFacts

_NAMED = (
    "is not an image with a label ({reason}); name their features, as in image='image' and "
    "label='label', or write it with `penstock ingest --kind images`"
)

IMAGE = "image"
"""What these inputs call the image where there is one: [batch, height, width, channels]."""

LabelFn = Callable[[Any], Any]
BatchFn = Callable[[tf.Tensor, tf.Tensor], tf.Tensor]
# By what the input calls them.
Stored = Mapping[str, StoredImages]


@keeps_source
def train_image_input_fn(
    source: InputSource,
    *,
    options: ImageInputOptions,
    image: str | Sequence[str] = names.ENCODED,
    label: str | Sequence[str] = names.LABEL,
    label_fn: LabelFn | None = None,
    augment: BatchFn | None = None,
    split: str = "train",
    input_context: tf.distribute.InputContext | None = None,
    start: InputStart | None = None,
) -> tf.data.Dataset:
    """Endless shuffled batches for training.

    Args:
        source: File paths and patterns as in TFX's `fn_args.train_files`, or a folder with a
            manifest.
        options: Size, shuffling and speed.
        image: The feature that holds an image: a JPEG, PNG, BMP or the first of a GIF; raw
            pixels, bytes of uint8 or float32 or a list of floats, of the record's height and width
            or of those wanted; or such a tensor, serialized. Or several, of one size in the end.
        label: The feature that the label is made from, one whole number an image; or several,
            which then are a mapping by name.
        label_fn: Makes the label, int64 [batch], of that feature, int64 [batch]; None takes it
            as it is.
        augment: Changes a batch of images, [batch, height, width, channels], to another of the
            same kind, by a seed, int64 [2]: the same for all images of a row.
        split: The split to take from a manifest.
        input_context: This worker's place among several, as `tf.distribute` gives it.
        start: The batches that were given before, to go on after them; see `train`.

    Returns:
        Dataset of `({"image": [batch, height, width, channels]}, label)`, uint8 but of pixels that
        are floats, which come as they are. Several images are called by their features. Each pass
        comes in another order and has each image once.

    Raises:
        DataError: There are no images, or the records hold no such images.
        UsageError: An option does not go with the data, the cache does not fit, or the input is
            another one than at the start.
    """
    files = find_input(source, split=split)
    stored = _stored_images(files, image, label, options)
    passes = open_passes(
        files,
        options,
        block_rows=1,
        window=options.shuffle_window_images,
        context=input_context,
        start=start,
    )
    batch_size = rows_of_replica(options, input_context)
    whole = _parser(stored, label, partial(decode_whole, options=options))
    part = _parser(stored, label, partial(decode_random_part, options=options))
    if options.cache != "none":
        decoded = parallel_map(_records(files, options), whole)
        kept = cached(decoded, sum(files.counted()), options)
        images = passes.numbers.flat_map(lambda n: _cached_pass(n, kept, passes, options))
    elif options.crop == "random":
        records = passes.numbers.flat_map(lambda n: _numbered_pass(n, passes))
        images = parallel_map(records, lambda record, n: part(record, passes.seed_of(n)))
    else:
        images = parallel_map(passes.numbers.flat_map(lambda n: _pass(n, passes)), whole)
    batches = images.batch(batch_size, drop_remainder=True)
    if augment is not None:
        numbers = tf.data.Dataset.range(passes.step, ENDLESS)
        change = augment
        batches = parallel_map(
            tf.data.Dataset.zip((batches, numbers)),
            lambda batch, n: (
                {name: change(images, passes.seed_of(n)) for name, images in batch[0].items()},
                batch[1],
            ),
        )
    return _finish(batches, label_fn, options)


@keeps_source
def eval_image_input_fn(
    source: InputSource,
    *,
    options: ImageInputOptions,
    image: str | Sequence[str] = names.ENCODED,
    label: str | Sequence[str] = names.LABEL,
    label_fn: LabelFn | None = None,
    split: str = "eval",
    input_context: tf.distribute.InputContext | None = None,
) -> tf.data.Dataset:
    """One pass over every whole image in the same order each time, for evaluation.

    Arguments and errors are those of `train_image_input_fn`. Only the last batch may be short.
    """
    files = find_input(source, split=split)
    files, batch_size = share_of_worker(files, options, input_context)
    stored = _stored_images(files, image, label, options)
    parse = _parser(stored, label, partial(decode_whole, options=options))
    images = parallel_map(_records(files, options), parse)
    return _finish(images.batch(batch_size), label_fn, options)


def stored_images(
    source: InputSource,
    *,
    options: ImageInputOptions,
    image: str | Sequence[str] = names.ENCODED,
    label: str | Sequence[str] = names.LABEL,
    split: str = "train",
) -> Stored:
    """How the images in `source` are stored, by the first record: for `decode_features`.

    Arguments and errors are those of `train_image_input_fn`.
    """
    return _stored_images(find_input(source, split=split), image, label, options)


def _records(files: InputFiles, options: ImageInputOptions) -> tf.data.Dataset:
    """Serialised Examples, always in the same order."""
    return interleaved(paths_of(files), tf.data.TFRecordDataset, options)


def _pass(number: tf.Tensor, passes: Passes) -> tf.data.Dataset:
    """Serialised Examples of a pass, permuted within windows without a copy of their bytes."""
    read = passes.read(number, tf.data.TFRecordDataset)
    size = passes.order.window
    windows = tf.data.Dataset.zip(
        (read.blocks.window(size), passes.seeds(number, read.window, read.drop))
    )
    return windows.flat_map(
        lambda window, seed_and_drop: seeded_shuffle(window, size, seed_and_drop[0])
    ).skip(read.drop)


def _numbered_pass(number: tf.Tensor, passes: Passes) -> tf.data.Dataset:
    """The same, each with a number of its own that is the same in every run."""
    begun = passes.begun(number)
    places = tf.data.Dataset.range(numbered(number, begun), ENDLESS)
    return tf.data.Dataset.zip((_pass(number, passes), places))


def _cached_pass(
    number: tf.Tensor, images: tf.data.Dataset, passes: Passes, options: ImageInputOptions
) -> tf.data.Dataset:
    """Decoded images of a pass, which come out of the cache in one order: mixed anew."""
    # What waits in memory are references to the cache's own tensors.
    window = options.shuffle_window_images
    if options.cache == "memory":
        window = sum(passes.files.counted())
    begun = passes.begun(number)
    return seeded_shuffle(images, window, passes.seed(number, 0)).skip(begun)


def _parser(
    stored: Stored, label: str | Sequence[str], decode: Callable[..., tf.Tensor]
) -> Callable[..., Any]:
    """A serialised Example, and what else `decode` takes, to its images and its raw label."""
    spec = _label_spec(label)
    for one in stored.values():
        spec.update(one.spec)

    def parse(record: tf.Tensor, *more: tf.Tensor) -> tuple[dict[str, tf.Tensor], Any]:
        features = tf.io.parse_single_example(record, spec)
        raw = features[label] if isinstance(label, str) else {n: features[n] for n in label}
        return {name: decode(features, *more, stored=one) for name, one in stored.items()}, raw

    return parse


def _label_spec(label: str | Sequence[str]) -> dict[str, Any]:
    labels = [label] if isinstance(label, str) else label
    return dict.fromkeys(labels, tf.io.FixedLenFeature([], tf.int64))


def _finish(
    batches: tf.data.Dataset, label_fn: LabelFn | None, options: ImageInputOptions
) -> tf.data.Dataset:
    """Make the labels and keep batches ready."""
    to_label = label_fn or (lambda raw: raw)
    batches = batches.map(lambda images, raw: (images, to_label(raw)))
    return tuned(batches, options)


def _stored_images(
    files: InputFiles,
    image: str | Sequence[str],
    label: str | Sequence[str],
    options: ImageInputOptions,
) -> Stored:
    """How the images of the first record are stored.

    Raises:
        DataError: There is no record, or the first holds no such images.
    """
    called = {IMAGE: image} if isinstance(image, str) else {name: name for name in image}

    def parse(record: tf.Tensor) -> Stored:
        example = parse_example(record.numpy())
        there = example.context.feature if example else {}
        if not {*called.values(), *_label_spec(label)}.issubset(there):
            raise tf.errors.InvalidArgumentError(None, None, f"it has {', '.join(sorted(there))}")
        tf.io.parse_single_example(record, _label_spec(label))
        return {name: stored_as(there, feature, options) for name, feature in called.items()}

    return first_record(files, parse, _NAMED)


def image_input_facts(
    source: InputSource, *, options: ImageInputOptions, split: str = "train"
) -> InputFacts:
    """The facts of what `train_image_input_fn` reads with the same arguments, for advice."""
    found = find_input(source, split=split)
    return facts_of(found, options, "images", columns=2, fixed_length=True)
