"""Shards of images in, batches of uint8 tensors out, as fast as images decode.

The chain for training, with what each link is for:

    files      order shuffled every pass
    records    files interleaved in threads, one image at a time
    window     images drawn at random from those that wait, still as they are stored
    images     decoded, cut and resized, one a core at a time
    (cache)    decoded images, where there is room for them
    batches    uint8: a quarter of what float32 takes to the device; the model scales them

An image is handed over by itself, unlike a row (see `input_fn`): the hand-over of 30 us is
little beside the decoding of 1,000, while blocks would copy their bytes again at each link.
Every pass gives every image exactly once, and every training batch is full.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

import tensorflow as tf

from penstock.components import image_features as names
from penstock.components.trainer.input.common import (
    first_record,
    interleaved,
    parallel_map,
    paths_of,
    share_of_worker,
    tuned,
)
from penstock.components.trainer.input.facts import facts_of
from penstock.components.trainer.input.files import InputFiles, Source, count_rows, find_input
from penstock.components.trainer.input.image_cache import cached
from penstock.components.trainer.input.image_decode import (
    StoredImages,
    decode_random_part,
    decode_whole,
)
from penstock.components.trainer.input.image_options import ImageInputOptions
from penstock.components.trainer.input.read_errors import keeps_source
from penstock.components.trainer.utilisation.record import InputFacts

_SIZES = (names.HEIGHT, names.WIDTH, names.CHANNELS)

IMAGE = "image"
"""The one feature that these inputs give: uint8 [batch, height, width, channels]."""

LabelFn = Callable[[tf.Tensor], tf.Tensor]
BatchFn = Callable[[tf.Tensor], tf.Tensor]


@keeps_source
def train_image_input_fn(
    source: Source,
    *,
    options: ImageInputOptions,
    label: str = names.LABEL,
    label_fn: LabelFn | None = None,
    augment: BatchFn | None = None,
    split: str = "train",
    input_context: tf.distribute.InputContext | None = None,
) -> tf.data.Dataset:
    """Endless shuffled batches for training.

    Args:
        source: File paths and patterns as in TFX's `fn_args.train_files`, or a folder with a
            manifest.
        options: Size, shuffling and speed.
        label: The feature that the label is made from, one whole number an image.
        label_fn: Makes the label, int64 [batch], of that feature, int64 [batch]; None takes it
            as it is.
        augment: Changes a batch of images, uint8 [batch, height, width, channels], to another
            of the same kind.
        split: The split to take from a manifest.
        input_context: This worker's place among several, as `tf.distribute` gives it.

    Returns:
        Dataset of `({"image": uint8 [batch, height, width, channels]}, label)`. Each pass comes
        in another order and has each image once.

    Raises:
        DataError: There are no images, too few files for the workers, or the records are none
            of images.
        UsageError: An option does not go with the data, or the cache does not fit.
    """
    found = find_input(source, split=split)
    files, batch_size = share_of_worker(found, options, input_context)
    stored = _stored_images(files, label)
    parallel = partial(parallel_map, deterministic=options.seed is not None)
    records = _records(paths_of(files).shuffle(len(files.files), seed=options.seed), options)
    if options.cache != "none":
        rows = files.rows if files.rows is not None else count_rows(files.files, split=split)
        decode = partial(decode_whole, stored=stored, options=options)
        images = cached(parallel(records, _parser(stored, label, decode)), rows, options)
        # What waits in memory are references to the cache's own tensors.
        window = rows if options.cache == "memory" else options.shuffle_window_images
        images = images.shuffle(window, seed=options.seed).repeat()
    else:
        records = records.shuffle(options.shuffle_window_images, seed=options.seed).repeat()
        if options.crop == "random":
            # The seeds are data, not the state of an op, so that images are cut in parallel.
            seeds = tf.data.Dataset.random(options.seed, rerandomize_each_iteration=True).batch(2)
            records = tf.data.Dataset.zip((records, seeds))
            decode = partial(decode_random_part, stored=stored, options=options)
        else:
            decode = partial(decode_whole, stored=stored, options=options)
        images = parallel(records, _parser(stored, label, decode))
    batches = images.batch(batch_size, drop_remainder=True)
    if augment is not None:
        change = augment
        # Its random numbers are the state of an op: one batch after another keeps their order.
        in_parallel = tf.data.AUTOTUNE if options.seed is None else None
        batches = batches.map(lambda x, y: (change(x), y), num_parallel_calls=in_parallel)
    return _finish(batches, label_fn, options, deterministic=options.seed is not None)


@keeps_source
def eval_image_input_fn(
    source: Source,
    *,
    options: ImageInputOptions,
    label: str = names.LABEL,
    label_fn: LabelFn | None = None,
    split: str = "eval",
    input_context: tf.distribute.InputContext | None = None,
) -> tf.data.Dataset:
    """One pass over every whole image in the same order each time, for evaluation.

    Arguments and errors are those of `train_image_input_fn`. Only the last batch may be short.
    """
    found = find_input(source, split=split)
    files, batch_size = share_of_worker(found, options, input_context)
    stored = _stored_images(files, label)
    decode = partial(decode_whole, stored=stored, options=options)
    records = _records(paths_of(files), options, deterministic=True)
    images = parallel_map(records, _parser(stored, label, decode), deterministic=True)
    return _finish(images.batch(batch_size), label_fn, options, deterministic=True)


def stored_images(
    source: Source, *, label: str = names.LABEL, split: str = "train"
) -> StoredImages:
    """How the images in `source` are stored, by the first of them.

    Arguments and errors are those of `train_image_input_fn`.
    """
    return _stored_images(find_input(source, split=split), label)


def _records(
    paths: tf.data.Dataset, options: ImageInputOptions, *, deterministic: bool = False
) -> tf.data.Dataset:
    """Serialised Examples, of several files at a time."""
    return interleaved(
        paths,
        tf.data.TFRecordDataset,
        options,
        deterministic=deterministic or options.seed is not None,
    )


def _parser(
    stored: StoredImages, label: str, decode: Callable[..., tf.Tensor]
) -> Callable[..., Any]:
    """A serialised Example, and what else `decode` takes, to an image and its raw label."""
    spec = {**stored.spec, label: tf.io.FixedLenFeature([], tf.int64)}

    def parse(record: tf.Tensor, *more: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        features = tf.io.parse_single_example(record, spec)
        return decode(features, *more), features[label]

    return parse


def _finish(
    batches: tf.data.Dataset,
    label_fn: LabelFn | None,
    options: ImageInputOptions,
    *,
    deterministic: bool,
) -> tf.data.Dataset:
    """Make the labels and keep batches ready."""
    to_label = label_fn or (lambda raw: raw)
    batches = batches.map(lambda images, raw: ({IMAGE: images}, to_label(raw)))
    return tuned(batches, options, deterministic=deterministic)


def _stored_images(files: InputFiles, label: str) -> StoredImages:
    """How the first image is stored.

    Raises:
        DataError: There is no record, or the first is none of an image.
    """
    spec = {
        names.ENCODED: tf.io.FixedLenFeature([], tf.string),
        names.FORMAT: tf.io.FixedLenFeature([], tf.string, ""),
        **dict.fromkeys(_SIZES, tf.io.FixedLenFeature([], tf.int64, 0)),
        label: tf.io.FixedLenFeature([], tf.int64),
    }

    def parse(record: tf.Tensor) -> StoredImages:
        features = tf.io.parse_single_example(record, spec)
        is_raw = features[names.FORMAT].numpy().decode() == names.RAW
        height, width, channels = (int(features[name]) for name in _SIZES)
        return StoredImages(is_raw, channels if is_raw else 0, (height, width))

    expected = (
        "is none of an image with a label ({reason}); write it with `penstock ingest --kind images`"
    )
    return first_record(files, parse, expected)


def image_input_facts(
    source: Source, *, options: ImageInputOptions, split: str = "train"
) -> InputFacts:
    """The facts of what `train_image_input_fn` reads with the same arguments, for advice."""
    found = find_input(source, split=split)
    return facts_of(found, options, "images", columns=2, fixed_length=True)
