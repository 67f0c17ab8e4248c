"""Reads shards of rows, packed records or images as tf.data batches, through one interface."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Sequence
from typing import TYPE_CHECKING, Any

import tensorflow as tf

from penstock.components import image_features as names
from penstock.components.tfrecord.sharding import split_dir
from penstock.components.tfrecord.unlisted import find_damage
from penstock.components.trainer.input.common import Label
from penstock.components.trainer.input.files import InputFiles, InputSource, find_input
from penstock.components.trainer.input.options import ImageInputOptions, InputOptions
from penstock.components.trainer.input.parsing import Spec
from penstock.components.trainer.input.passes import InputStart

if TYPE_CHECKING:
    from penstock.components.trainer.input.images import ImageInput, LabelFn

# Name of the attribute in which a dataset refers to its `Input` and split, for `rows_in` and
# `damage_in`.
_ORIGIN = "penstock_origin"


class Input(ABC):
    """Reads shards as batches of tensors, for training and for evaluation.

    Create one by `Input.rows`, `Input.packed` or `Input.images`. Their `source` is a folder with a
    manifest, or file paths and patterns as in TFX's `fn_args.train_files`; files whose names end in
    `.gz` are decompressed. Nothing is read until a method of the input, such as `train`, is called.
    The methods raise:

        DataError: There are no rows, the shards differ from their manifest, or the first record
            does not fit the requested features.
        UsageError: There is no such split or feature, an option does not fit the data, the cache
            does not fit into memory, or the input differs from that at the start of the training.
    """

    def __init__(
        self, source: InputSource, options: InputOptions, function: Callable[..., Any] | None = None
    ) -> None:
        self.source = source
        self.options = options
        self._has_user_code = function is not None

    # The modules of the subclasses are imported inside the methods that need them, because these
    # modules import this one.

    @staticmethod
    def rows(
        source: InputSource,
        spec: Spec,
        *,
        options: InputOptions,
        label: Label = None,
        feature_lists: Spec | None = None,
    ) -> "Input":
        """Returns an input of rows: each record is one `tf.train.Example` or SequenceExample.

        Batches map features to tensors `[batch, ...]`. Ragged features are padded to the longest
        list in the batch.

        Args:
            source: See `Input`.
            spec: Specs of the features to parse, for example the result of `feature_spec`. For
                SequenceExamples, it describes the context.
            options: Batch size, shuffling and speed.
            label: The feature that is the label, or several, in which case the label is a mapping
                by name. With None, batches have features only.
            feature_lists: Features to parse from the steps of SequenceExamples; None if the records
                are Examples.
        """
        from penstock.components.trainer.input.rows import RowInput

        return RowInput(source, spec, options, label, feature_lists)

    @staticmethod
    def packed(
        source: InputSource,
        *,
        options: InputOptions,
        label: Label = None,
        columns: Collection[str] | None = None,
    ) -> "Input":
        """Returns an input of packed shards from `penstock pack` or the Pack node.

        The shards may be local or remote.

        Batches map features to tensors `[batch, *shape]` of int64, float32 or string. Images are
        uint8, vocabulary ids are int32, and lists are a `tf.SparseTensor`.

        Args:
            source: The folder of all splits, or a list of one pattern, `[FOLDER/Split-NAME/*]`.
            options: Batch size, shuffling and speed.
            label: Same as in `rows`.
            columns: Features to read besides the label; None reads all. Columns that are not read
                cost no time.
        """
        from penstock.components.trainer.input.packed import PackedInput

        return PackedInput(source, options, label, columns)

    @staticmethod
    def images(
        source: InputSource,
        *,
        options: ImageInputOptions,
        image: str = names.ENCODED,
        label: str | Sequence[str] = names.LABEL,
        label_fn: "LabelFn | None" = None,
    ) -> "ImageInput":
        """Returns an input of images, which are stored as files (such as JPEG) or as raw pixels.

        Batches are `({"image": uint8 [batch, height, width, channels]}, label)`.

        Args:
            source: See `Input`.
            options: Size, shuffling and speed.
            image: The feature that contains an image: a JPEG, PNG, BMP or GIF (its first frame), or
                raw uint8 pixels. Raw pixels have the height and width that the record states, or
                those of `options` if it states none.
            label: The feature that the label is made from, one integer per image; or several, in
                which case the label is a mapping by name.
            label_fn: Function from that feature, int64 [batch], or from that mapping, to the label;
                None uses the feature or mapping unchanged.
        """
        from penstock.components.trainer.input.images import ImageInput

        return ImageInput(source, options, image, label, label_fn)

    def train(
        self,
        *,
        start: InputStart | None = None,
        input_context: tf.distribute.InputContext | None = None,
        split: str = "train",
    ) -> tf.data.Dataset:
        """Returns endless, full, shuffled batches of `(features, label)`.

        Each pass yields each row once, in a new order. Without a label, each batch is only the
        features. After a `map` of your own, call `prefetch`, because TensorFlow adds none.

        Args:
            start: Number of batches to skip, and the seed. The function `train` of `loop.py` passes
                it, so that a training can resume.
            input_context: Index of this worker and number of workers, from `tf.distribute`. The
                worker then reads only its part of the rows, in batches of `batch_size` divided by
                the number of replicas.
            split: The split of the manifest to read.
        """
        return self._built(split, lambda: self._train(split, start, input_context))

    def eval(self, *, split: str = "eval") -> tf.data.Dataset:
        """Returns one pass over all rows for evaluation, in the same order each time.

        Only the last batch may be short.
        """
        return self._built(split, lambda: self._eval(split))

    def steps_per_epoch(self, *, split: str = "train") -> int:
        """Returns the number of training steps after which every row was read at least once."""
        rows = sum(self._files(split).counted())
        return max(1, -(-rows // self.options.batch_size))

    @abstractmethod
    def _train(
        self,
        split: str,
        start: InputStart | None,
        context: tf.distribute.InputContext | None,
    ) -> tf.data.Dataset: ...

    @abstractmethod
    def _eval(self, split: str) -> tf.data.Dataset: ...

    def _files(self, split: str) -> InputFiles:
        return find_input(self.source, split=split)

    def misfit(self, split: str) -> str | None:
        """Returns a message about the first record that cannot be parsed.

        This base method returns None.
        """
        del split
        return None

    def _built(self, split: str, build: Callable[[], tf.data.Dataset]) -> tf.data.Dataset:
        """Builds a dataset and attaches its `Input` and split, for `rows_in` and `damage_in`.

        AutoGraph is used only for functions of the user, which may branch in Python on a tensor.
        Penstock's functions do not, and AutoGraph would cost half a second of CPU in each training.
        """
        if not self._has_user_code:
            build = tf.autograph.experimental.do_not_convert(build)
        dataset = build()
        setattr(dataset, _ORIGIN, (self, split))
        return dataset


def rows_in(dataset: tf.data.Dataset) -> int | None:
    """Returns the number of rows in the files of a dataset from `Input`; None if unknown."""
    data, split = getattr(dataset, _ORIGIN, (None, ""))
    return data and data._files(split).rows


def damage_in(*datasets: tf.data.Dataset | None) -> str | None:
    """Returns the first fault in the files of datasets from `Input`: file, record and reason.

    Local files are searched for damaged bytes. If no damage is found, files of rows, local or
    remote, are searched for a record that does not fit the spec.

    The search reads every byte, so call it only after a failure of tf.data, whose errors do not
    name the file.
    """
    for dataset in datasets:
        data, split = getattr(dataset, _ORIGIN, (None, ""))
        if data is None:
            continue
        is_list = isinstance(data.source, list | tuple)
        patterns = data.source if is_list else [f"{data.source}/{split_dir('*')}/*"]
        files = sorted({file for pattern in patterns for file in tf.io.gfile.glob(str(pattern))})
        local = (file for file in files if "://" not in file)
        if damage := find_damage(local) or data.misfit(split):
            return damage
    return None
