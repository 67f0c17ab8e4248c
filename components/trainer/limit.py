"""Times steps of the model without an input, and profiles some steps at the end of the run.

A sample repeats a few steps on one batch that stays on the device. In a long run, samples are taken
between calls of the run, so other work on the machine slows both alike. A short run has its samples
at the end, since a pause would let its input get ahead. The weights do not change.
"""

import logging
import posixpath
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from penstock.components.trainer.steps import Steps
from penstock.components.trainer.utilisation.record import StepLimit
from penstock.components.trainer.utilisation.step_clock import CallTimes

logger = logging.getLogger(__name__)

_SAMPLES = 10
# If fewer samples were taken during the run, samples are taken at its end.
_LEAST_SAMPLES = 4
# A run that takes less time is short.
_LONG_SECONDS = 20.0
# Samples take at most 1/40 of the run's time, since its input gets ahead meanwhile.
_PART_OF_TIME = 40
# A sample at the end has at most 1/40 of the steps of the run.
_PART_OF_STEPS = 40
_GPU_PLANE = "/device:GPU:"
# Other lines of a plane list the same kernels under other names.
_KERNEL_LINE = "Stream #"
_COPIES = ("Memcpy", "Memset")


class LimitSampler:
    """Times steps on a batch that stays on the device, for comparison with the run's steps.

    With several workers, samples are taken only at the end: all must do the same steps. If
    `wants_batch` is set, the run's next step must be `step_on_kept_batch`.
    """

    def __init__(
        self, model: keras.Model, steps: Steps, *, total_steps: int, has_workers: bool
    ) -> None:
        self._model, self._steps = model, steps
        self._total_steps, self._has_workers = total_steps, has_workers
        self._batch: Any = None
        self._due: list[float] = []
        self._run: list[float] = []
        self._resident: list[float] = []
        self._call_steps = self._done = 0
        self._begin = time.perf_counter()
        self._spent = 0.0
        self._is_over = False
        self.wants_batch = False

    def begin(self, step: int) -> None:
        left = self._total_steps - step
        if not self._has_workers:
            self._due = [step + left * (n + 1) / (_SAMPLES + 1) for n in range(_SAMPLES)]
        self._begin = time.perf_counter()

    def step_on_kept_batch(self) -> tuple[np.ndarray, CallTimes]:
        """Runs the run's next step, and keeps its batch on the device for samples."""
        self.wants_batch = False
        self._batch = self._steps.resident_batch()
        return self._steps.repeat(self._batch, 1)

    def add_call(self, call: CallTimes, step: int) -> None:
        """Counts a call of the run, which ended with step `step`; takes a sample if one is due."""
        self._call_steps, self._done = call.steps, self._done + call.steps
        if not self._due or step < self._due[0]:
            return
        self._due = [due for due in self._due if due > step]
        elapsed = time.perf_counter() - self._begin
        if elapsed < max(_LONG_SECONDS, _PART_OF_TIME * (self._spent + call.seconds)):
            return
        if self._batch is None:
            self.wants_batch = True
        elif self._sample(call.steps // 2):
            self._run.append(float(call.step_seconds.mean()))

    def limit(self) -> StepLimit | None:
        """Returns the samples; None if the run had no step to compare them with."""
        if not self._done:
            return None
        if len(self._run) < _LEAST_SAMPLES:
            self._run, self._resident = [], []
            self._sample(1)  # the first call traces and is not counted
            self._resident = []
            for _ in range(_SAMPLES):
                self._sample(min(self._call_steps // 2, self._done // _PART_OF_STEPS))
        if not self._resident:
            return None
        return StepLimit(tuple(self._resident), self._steps.on_gpu, tuple(self._run))

    def idle_share(self, count: int, log_dir: str) -> float | None:
        """Profiles `count` more steps; returns the idle share of the GPUs, see `Utilisation`."""
        if not count or not self._done:
            return None
        try:
            with _weights_kept(self._model):
                self._steps.train(count)  # uses up the batches that the input already has ready
                return idle_share_of(lambda: self._steps.train(count), log_dir)
        except tf.errors.OpError as error:
            logger.warning("no profile was taken: %s", error.message.splitlines()[0])
            return None

    def _sample(self, count: int) -> bool:
        if self._is_over:
            return False
        begin = time.perf_counter()
        try:
            if self._batch is None:
                self._batch = self._steps.resident_batch()
            with _weights_kept(self._model):
                _, call = self._steps.repeat(self._batch, max(1, count))
        except tf.errors.OpError as error:
            self._is_over, self._due = True, []
            text = error.message.splitlines()[0]
            logger.warning("steps without an input cannot be timed: %s", text)
            return False
        self._resident.append(float(call.step_seconds.mean()))
        self._spent += time.perf_counter() - begin
        return True


@contextmanager
def _weights_kept(model: keras.Model) -> Iterator[None]:
    """Restores all that steps change: weights, metrics, random state, the optimizer's variables."""
    variables = [*model.variables, *model.optimizer.variables]
    values = [variable.numpy() for variable in variables]
    try:
        yield
    finally:
        for variable, value in zip(variables, values, strict=True):
            variable.assign(value)


def idle_share_of(work: Callable[[], object], log_dir: str) -> float | None:
    """Runs `work` under the profiler until the devices finish; returns `idle_share` of it.

    Writes `plugins/profile/TIME/HOST.xplane.pb` to TensorBoard's `log_dir`.
    """
    from tensorflow.tsl.profiler.protobuf import xplane_pb2

    # Without Python's frames, which nobody needs and which would slow the steps down.
    options = tf.profiler.experimental.ProfilerOptions(python_tracer_level=0)
    with tf.profiler.experimental.Profile(log_dir, options):
        work()
    files = tf.io.gfile.glob(posixpath.join(log_dir, "plugins/profile/*/*.xplane.pb"))
    with tf.io.gfile.GFile(max(files), "rb") as file:
        return idle_share(xplane_pb2.XSpace.FromString(file.read()))


def idle_share(space: Any) -> float | None:
    """Returns the share of time, 0..1, in which a GPU ran no kernel, from its first to its last.

    It is the mean over the GPUs of an `XSpace` that ran kernels; None if none did. Copies do not
    count.
    """
    planes = [plane for plane in space.planes if plane.name.startswith(_GPU_PLANE)]
    shares = [_idle(kernels) for plane in planes if (kernels := _kernels(plane))]
    return sum(shares) / len(shares) if shares else None


def _kernels(plane: Any) -> list[tuple[int, int]]:
    found = []
    for line in plane.lines:
        if line.name.startswith(_KERNEL_LINE):
            for event in line.events:
                if not plane.event_metadata[event.metadata_id].name.startswith(_COPIES):
                    begin = 1000 * line.timestamp_ns + event.offset_ps
                    found.append((begin, begin + event.duration_ps))
    return sorted(found)


def _idle(kernels: list[tuple[int, int]]) -> float:
    first = seen = kernels[0][0]
    busy = 0
    for begin, end in kernels:  # kernels of several streams overlap
        busy += max(0, end - max(begin, seen))
        seen = max(end, seen)
    return 1 - busy / (seen - first) if seen > first else 0.0
