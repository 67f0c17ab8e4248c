"""Idle share of the GPUs, from a profile by TensorFlow's profiler."""

import posixpath
from collections.abc import Callable
from typing import Any

import tensorflow as tf

_PLANE = "/device:GPU:"
# Other lines of a plane repeat the kernels under other names.
_LINE = "Stream #"
_COPIES = ("Memcpy", "Memset")


def idle_share_of(work: Callable[[], object], log_dir: str) -> float | None:
    """Runs `work` under the profiler until the devices finish; returns its `idle_share`.

    TensorBoard's `log_dir` gets `plugins/profile/TIME/HOST.xplane.pb`.
    """
    from tensorflow.tsl.profiler.protobuf import xplane_pb2

    # Python's frames are not needed and would slow the steps down.
    options = tf.profiler.experimental.ProfilerOptions(python_tracer_level=0)
    with tf.profiler.experimental.Profile(log_dir, options):
        work()
    files = tf.io.gfile.glob(posixpath.join(log_dir, "plugins/profile/*/*.xplane.pb"))
    with tf.io.gfile.GFile(max(files), "rb") as file:
        return idle_share(xplane_pb2.XSpace.FromString(file.read()))


def idle_share(space: Any) -> float | None:
    """Returns the share of time without a kernel between a GPU's first and last, 0..1.

    The mean over the GPUs of an `XSpace` that ran kernels; None without one. Copies do not count.
    """
    planes = [plane for plane in space.planes if plane.name.startswith(_PLANE)]
    shares = [_idle(kernels) for plane in planes if (kernels := _kernels(plane))]
    return sum(shares) / len(shares) if shares else None


def _kernels(plane: Any) -> list[tuple[int, int]]:
    found = []
    for line in plane.lines:
        if line.name.startswith(_LINE):
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
