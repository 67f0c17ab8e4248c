"""One input for rows, packed records and images: shards in, tf.data batches for training out."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

import tensorflow as tf

from penstock.components import image_features as names
from penstock.components.tfrecord.sharding import MIB, split_dir
from penstock.components.tfrecord.unlisted import find_damage
from penstock.components.trainer.input.common import Label
from penstock.components.trainer.input.files import InputFiles, InputSource
from penstock.components.trainer.input.options import ImageInputOptions, InputOptions
from penstock.components.trainer.input.parsing import Spec
from penstock.components.trainer.input.start import InputStart
from penstock.components.trainer.utilisation.record import InputFacts

if TYPE_CHECKING:
    from penstock.components.trainer.input.images import BatchFn, ImageInput, LabelFn

# Attribute of a dataset with its `Input` and split, for `damage_in`.
_ORIGIN = "penstock_origin"


class Input(ABC):
    """Shards as batches of tensors, for training and for evaluation.

    Made by `Input.rows`, `Input.packed` or `Input.images`. Their `source` is a folder with a
    manifest, or file paths and patterns as in TFX's `fn_args.train_files`; names that end in `.gz`
    are decompressed. Nothing is read before `train`, `eval`, `facts` or `steps_per_epoch`, which
    raise:

        DataError: There are no rows, the shards differ from their manifest, or the first record
            does not fit.
        UsageError: There is no such split or feature, an option does not go with the data, the
            cache does not fit, or the input is another one than the training began with.
    """

    kind: ClassVar[str]

    def __init__(
        self, source: InputSource, options: InputOptions, functions: Sequence[Any] = ()
    ) -> None:
        self.source = source
        self.options = options
        self._has_user_code = any(function is not None for function in functions)

    # The kinds are imported on request: they subclass this class, and need modules of their own.

    @staticmethod
    def rows(
        source: InputSource,
        spec: Spec,
        *,
        options: InputOptions,
        label: Label = None,
        feature_lists: Spec | None = None,
    ) -> "Input":
        """Input of one `tf.train.Example` or SequenceExample per row.

        Batches map features to tensors `[batch, ...]`, ragged ones padded to the longest in their
        batch.

        Args:
            source: See `Input`.
            spec: Features to parse; see `feature_spec`. For SequenceExamples those of the context.
            options: Batch size, shuffling and speed.
            label: The feature that is the label, or several: the label is then a mapping by name.
                None gives features only.
            feature_lists: Feature lists to parse from the steps of SequenceExamples; None if the
                records are Examples.
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
        stacked: bool = False,
    ) -> "Input":
        """Input of records that `penstock pack` or the Pack node wrote, local or remote.

        Batches map features to tensors `[batch, *shape]`: int64, float32, string, uint8 of
        images, int32 of ids, and `tf.SparseTensor` of lists. Stacked, they have `int64`,
        `float32`, `int32` and `string` tensors `[batch, width]` under these names instead, columns
        in the manifest's order without the label, and images and lists by their names.

        Args:
            source: The folder, or `[FOLDER/Split-NAME/*]`.
            options: Batch size, shuffling and speed. The window is rounded up to whole blocks.
            label: See `rows`.
            columns: Features to read besides the label; None reads all. Others take no time.
            stacked: Whether to leave the columns of a type together. Saves the handling of many
                small tensors where there are many columns.
        """
        from penstock.components.trainer.input.packed import PackedInput

        return PackedInput(source, options, label, columns, stacked=stacked)

    @staticmethod
    def images(
        source: InputSource,
        *,
        options: ImageInputOptions,
        image: str | Sequence[str] = names.ENCODED,
        label: str | Sequence[str] = names.LABEL,
        label_fn: "LabelFn | None" = None,
        augment: "BatchFn | None" = None,
    ) -> "ImageInput":
        """Input of images: encoded, or stored as pixels.

        Batches are `({"image": [batch, height, width, channels]}, label)`, uint8, or float32 if the
        stored pixels are floats. Several images are named by their features.

        Args:
            source: See `Input`.
            options: Size, shuffling and speed.
            image: The feature that holds an image: a JPEG, PNG, BMP or the first of a GIF; raw
                pixels, as bytes of uint8 or float32 or a list of floats, of the record's height
                and width or of those wanted; or such a tensor, serialized. Or several features,
                whose images get one size.
            label: The feature that the label is made from, one whole number per image; or several,
                which then are a mapping by name.
            label_fn: Makes the label, int64 [batch], from that feature, int64 [batch]; None takes
                it unchanged.
            augment: Changes a training batch of images, [batch, height, width, channels], to
                another of the same kind, by a seed, int64 [2]: the same for all images of a row.
        """
        from penstock.components.trainer.input.images import ImageInput

        return ImageInput(source, options, image, label, label_fn, augment)

    def train(
        self,
        *,
        start: InputStart | None = None,
        input_context: tf.distribute.InputContext | None = None,
        split: str = "train",
    ) -> tf.data.Dataset:
        """Returns endless, full, shuffled batches of `(features, label)`.

        Each pass comes in another order and has each row once. Without a label the batches are
        features alone. Put a `prefetch` behind a `map` of your own: TensorFlow adds none.

        Args:
            start: Number of batches to pass over and the seed; `train()` gives it to resume.
            input_context: This worker's place among several, as `tf.distribute` gives it: it then
                reads rows of its own, in batches of `batch_size` / replicas rows.
            split: The split to take from a manifest.
        """
        return self._built(split, lambda: self._train(split, start, input_context))

    def eval(
        self, *, input_context: tf.distribute.InputContext | None = None, split: str = "eval"
    ) -> tf.data.Dataset:
        """Returns one pass over every row in the same order each time, for evaluation.

        Only the last batch may be short. Arguments are those of `train`.
        """
        return self._built(split, lambda: self._eval(split, input_context))

    def facts(self, *, split: str = "train") -> InputFacts:
        """Returns what training reads, and how: the evidence behind the advice of a verdict."""
        files, columns, fixed_length = self._columns(split)
        return InputFacts(
            kind=self.kind,
            files=len(files.files),
            rows=files.rows,
            stored_mib=sum(files.sizes) / MIB,
            compressed=any(files.compressions),
            columns=columns,
            fixed_length=fixed_length,
            batch_rows=self.options.batch_size,
            interleave_files=self.options.interleave_files,
            prefetch_batches=self.options.prefetch_batches,
            cache=self.options.cache,
            private_threads=self.options.private_threads,
        )

    def steps_per_epoch(self, *, split: str = "train") -> int:
        """Returns the training steps that see every row at least once."""
        rows = sum(self._columns(split)[0].counted())
        return max(1, -(-rows // self.options.batch_size))

    @abstractmethod
    def _train(
        self,
        split: str,
        start: InputStart | None,
        context: tf.distribute.InputContext | None,
    ) -> tf.data.Dataset: ...

    @abstractmethod
    def _eval(self, split: str, context: tf.distribute.InputContext | None) -> tf.data.Dataset: ...

    @abstractmethod
    def _columns(self, split: str) -> tuple[InputFiles, int, bool]:
        """Files, number of features read, and whether all of them have a fixed length."""

    def misfit(self, split: str) -> str | None:
        """Finds the first record that cannot be parsed, where the kind knows how."""
        del split
        return None

    def _built(self, split: str, build: Callable[[], tf.data.Dataset]) -> tf.data.Dataset:
        """Calls `build`, without AutoGraph if possible, and attaches the origin for `damage_in`.

        Our own functions never branch on a tensor in Python, and to translate them would take half
        a second of CPU in each training. A user's function may.
        """
        if not self._has_user_code:
            build = tf.autograph.experimental.do_not_convert(build)
        dataset = build()
        setattr(dataset, _ORIGIN, (self, split))
        return dataset


def damage_in(*datasets: tf.data.Dataset | None) -> str | None:
    """Finds the first fault in the local files of an `Input`'s datasets: file, record and reason.

    Reads every byte: call it after a failure, as tf.data's own errors name no file.
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
