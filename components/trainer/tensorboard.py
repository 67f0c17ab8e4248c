"""Epoch records in, TensorBoard scalars out, under the names that Keras gives them."""

import posixpath
from collections.abc import Mapping, Sequence

import tensorflow as tf

from penstock.components.trainer.training_record import EpochRecord


class TensorBoard:
    """Writes to `train/` and `validation/` under a log folder; the step axis counts steps.

    Args:
        log_dir: Where `tensorboard --logdir` will look.
        epochs: Records of epochs before a resumption, written first.
    """

    def __init__(self, log_dir: str, epochs: Sequence[EpochRecord] = ()) -> None:
        self._train = tf.summary.create_file_writer(posixpath.join(log_dir, "train"))
        self._validation = tf.summary.create_file_writer(posixpath.join(log_dir, "validation"))
        for epoch in epochs:
            self.write(epoch)

    def write(self, epoch: EpochRecord) -> None:
        """Write one epoch, and flush, so that a running training can be watched."""
        metrics = dict(epoch.metrics)
        validation = {n.removeprefix("val_"): v for n, v in metrics.items() if n[:4] == "val_"}
        train = {n: v for n, v in metrics.items() if n[:4] != "val_"}
        train["learning_rate"] = epoch.learning_rate
        for name in ("seconds_per_step", "input_wait_share", "examples_per_second"):
            if (value := getattr(epoch, name)) is not None:
                train[name] = value
        for writer, values in ((self._train, train), (self._validation, validation)):
            with writer.as_default(step=epoch.step):
                for name, value in values.items():
                    tf.summary.scalar(f"epoch_{name}", value)
            writer.flush()

    def write_live(self, values: Mapping[str, float], step: int) -> None:
        """Write figures of a running epoch under their names, and flush."""
        with self._train.as_default(step=step):
            for name, value in values.items():
                tf.summary.scalar(name, value)
        self._train.flush()

    def close(self) -> None:
        """Close the event files."""
        self._train.close()
        self._validation.close()
