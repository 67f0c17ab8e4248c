"""Checkpoints that survive a kill: each is a folder that a rename puts in place when complete.

    resume-<digest>/step-00000400/variables.index, variables.data-*, state.json

Checkpoints contain plain lists of variables, so they do not depend on how a version of Keras names
and tracks variables.
"""

import hashlib
import json
import logging
import os
import posixpath
import re
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from penstock.components.errors import DataError, UsageError, short_error
from penstock.components.plain import from_record
from penstock.components.trainer.input.passes import InputStart
from penstock.components.trainer.record import EpochRecord

logger = logging.getLogger(__name__)

_STEP_DIR = re.compile(r"^step-(\d{8,})/?$")
# Age at which another training's checkpoints count as abandoned. A training saves every few minutes
# while steps run; a week also covers a long evaluation.
_ABANDONED_SECONDS = 7 * 24 * 3600.0
_VARIABLES = "variables"
_STATE = "state.json"
_KEPT = 2  # the newest, and the one before it in case the newest is damaged
# Errors of TensorFlow's and JSON's readers for truncated, altered or missing files.
_DAMAGED = (tf.errors.OpError, IndexError, KeyError, RuntimeError, TypeError, ValueError)
# Errors of a full disk or a missing permission; the loss of a worker raises other errors.
_UNWRITABLE = (
    tf.errors.NotFoundError,
    tf.errors.PermissionDeniedError,
    tf.errors.ResourceExhaustedError,
    OSError,
)


def resume_dir(model_run_dir: str, key: Any) -> str:
    """Returns a folder for checkpoints that outlives one execution, beside its `model_run_dir`.

    TFX gives every execution a new output folder, so a run that resumes a killed one must find the
    checkpoints in another place.

    Args:
        model_run_dir: `fn_args.model_run_dir`.
        key: Everything that the training depends on, as JSON values: input files, options, digest
            of the code. A different key means a different training, which starts from scratch.

    Raises:
        UsageError: The key has a value that JSON cannot hold.
    """
    try:
        text = json.dumps(key, sort_keys=True)
    except TypeError as error:
        raise UsageError(f"the key of a resume_dir must be JSON values only: {error}") from error
    digest = hashlib.sha256(text.encode()).hexdigest()[:16]
    return posixpath.join(posixpath.dirname(model_run_dir.rstrip("/")), f"resume-{digest}")


@dataclass(frozen=True)
class Saved:
    """A complete checkpoint: its folder, the epochs before it, and where the input resumes."""

    path: str
    epochs: tuple[EpochRecord, ...]
    start: InputStart


class Checkpoints:
    """Saves and restores a model, its optimizer and metrics, and the position in its training.

    A worker that is not the chief must also write; it uses the folder `scratch`, which is never
    read.
    """

    def __init__(self, directory: str, *, scratch: str | None = None) -> None:
        self.directory = directory
        self._scratch = scratch

    def track(self, model: keras.Model) -> None:
        """Sets the model to save and restore; its optimizer and metrics must be built."""
        self._tracked = tf.train.Checkpoint(
            model=[variable.value for variable in model.variables],
            optimizer=[variable.value for variable in model.optimizer.variables],
            metrics=[variable.value for variable in model.metrics_variables],
        )

    def save(
        self, start: InputStart, epochs: Sequence[EpochRecord], *, best_step: int | None
    ) -> None:
        """Saves the state after `start.step` steps; keeps the newest checkpoints and the best."""
        if self._scratch is not None:
            self._tracked.write(posixpath.join(self._scratch, _VARIABLES))
            return
        final = self._path(start.step)
        temporary = posixpath.join(self.directory, f".{posixpath.basename(final)}.tmp")
        state = {"epochs": [asdict(epoch) for epoch in epochs], "start": asdict(start)}
        try:
            _remove(temporary)
            tf.io.gfile.makedirs(temporary)
            self._tracked.write(posixpath.join(temporary, _VARIABLES))
            with tf.io.gfile.GFile(posixpath.join(temporary, _STATE), "w") as file:
                file.write(json.dumps(state))
            _remove(final)
            tf.io.gfile.rename(temporary, final)
            steps = self._steps()
            for old in {*steps[:-_KEPT]} - {best_step}:
                _remove(self._path(old))
        except _UNWRITABLE as error:
            raise DataError(
                f"{self.directory}: no checkpoint can be written ({short_error(error, 999)}); "
                "the training continues from the one before when it is run again"
            ) from error

    def newest(self) -> Saved | None:
        for step in reversed(self._steps()):
            path = self._path(step)
            try:
                return _read_whole(path)
            except _DAMAGED as error:
                logger.warning("%s: damaged checkpoint, trying the one before (%s)", path, error)
        return None

    def at(self, step: int) -> Saved:
        """Returns the checkpoint of a step.

        `step` is the step of the chief's newest checkpoint or of the best epoch.
        """
        try:
            return _read_whole(self._path(step))
        except _DAMAGED as error:
            raise DataError(
                f"{self._path(step)}: the checkpoint cannot be read ({short_error(error)}); all "
                f"workers need the same folder; without it, remove {self.directory} and train again"
            ) from error

    def restore(self, saved: Saved) -> None:
        try:
            self._tracked.read(posixpath.join(saved.path, _VARIABLES)).assert_consumed()
        except (AssertionError, ValueError) as error:
            raise DataError(
                f"{saved.path}: the checkpoint is of another model ({short_error(error)}); "
                f"remove {self.directory} or give resume_dir a key that covers the model"
            ) from error

    def clear(self) -> None:
        """Removes the checkpoints, and those of other trainings that are older than a week."""
        if self._scratch is not None:
            return
        _remove(self.directory)
        parent = posixpath.dirname(self.directory.rstrip("/"))
        for folder in tf.io.gfile.glob(posixpath.join(parent, f"resume-{'?' * 16}")):
            states = tf.io.gfile.glob(posixpath.join(folder, "step-*", _STATE))
            saved = [tf.io.gfile.stat(state).mtime_nsec / 1e9 for state in states]
            if saved and time.time() - max(saved) > _ABANDONED_SECONDS:
                _remove(folder)

    def _path(self, step: int) -> str:
        return posixpath.join(self.directory, f"step-{step:08d}")

    def _steps(self) -> list[int]:
        if not tf.io.gfile.isdir(self.directory):
            return []
        names = [_STEP_DIR.match(name) for name in tf.io.gfile.listdir(self.directory)]
        return sorted(int(match[1]) for match in names if match)


def _read_whole(path: str) -> Saved:
    """Reads every byte of a checkpoint, and thereby verifies the checksum of each tensor."""
    reader = tf.train.load_checkpoint(posixpath.join(path, _VARIABLES))
    for name, dtype in reader.get_variable_to_dtype_map().items():
        value = np.asarray(reader.get_tensor(name))
        # Only weights must be finite: no training could continue from NaN or inf in them, but
        # variables of an optimizer or a metric may hold inf.
        if name.startswith("model/") and dtype.is_floating and not np.isfinite(value).all():
            raise ValueError(f"{name} holds NaN or inf")
    with tf.io.gfile.GFile(posixpath.join(path, _STATE)) as file:
        state = json.loads(file.read())
    epochs = tuple(from_record(EpochRecord, epoch) for epoch in state["epochs"])
    return Saved(path, epochs, from_record(InputStart, state["start"]))


def _remove(path: str | os.PathLike[str]) -> None:
    if tf.io.gfile.exists(path):
        tf.io.gfile.rmtree(path)
