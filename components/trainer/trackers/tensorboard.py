"""TensorBoard, which is always on: event files in the ModelRun, for `tensorboard --logdir`."""

import posixpath
from collections.abc import Mapping

import tensorflow as tf

from penstock.components.trainer.trackers.tracker import State

_VALIDATION = "epoch_val_"


class TensorBoard:
    """Writer of event files to `train/` and `validation/` in `log_dir`, by step.

    Metrics of the evaluation, `epoch_val_<metric>`, go to `validation/` as `epoch_<metric>`, so
    that both are in one plot, as in Keras. Files are not copied, as they are beside the logs.
    """

    continued = False

    def __init__(self, log_dir: str) -> None:
        self.run = log_dir
        self.url = None
        self._train = tf.summary.create_file_writer(posixpath.join(log_dir, "train"))
        self._validation = tf.summary.create_file_writer(posixpath.join(log_dir, "validation"))

    def params(self, values: Mapping[str, str]) -> None:
        """Writes a table of the options."""
        rows = [f"| {name} | {value} |" for name, value in values.items()]
        with self._train.as_default(step=0):
            tf.summary.text("params", "\n".join(["| option | value |", "|---|---|", *rows]))

    def metrics(self, values: Mapping[str, float], step: int) -> None:
        """Writes scalars and flushes them, so that a running training can be watched."""
        validation = {
            f"epoch_{name.removeprefix(_VALIDATION)}": value
            for name, value in values.items()
            if name.startswith(_VALIDATION)
        }
        train = {name: v for name, v in values.items() if not name.startswith(_VALIDATION)}
        for writer, scalars in ((self._train, train), (self._validation, validation)):
            with writer.as_default(step=step):
                for name, value in scalars.items():
                    tf.summary.scalar(name, value)
            writer.flush()

    def file(self, name: str, text: str) -> None:
        """Does nothing: the file is in the folder of the logs already."""

    def end(self, state: State) -> None:
        """Closes the event files."""
        self._train.close()
        self._validation.close()
