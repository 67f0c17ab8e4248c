"""Checks that rows to be cached in memory fit there."""

import math

import psutil
import tensorflow as tf

from penstock.components.errors import UsageError
from penstock.components.tfrecord.sharding import MIB
from penstock.components.trainer.input.options import ImageInputOptions
from penstock.components.trainer.utilisation.limits import memory_limit_mib

_GIB = 1 << 30
# Bytes per row for the label and the overhead of a tf.data element.
_OVERHEAD_BYTES = 512
# The rest is left for the model and its batches.
_MEMORY_SHARE = 0.7


def cached(images: tf.data.Dataset, rows: int, options: ImageInputOptions) -> tf.data.Dataset:
    specs = images.element_spec[0].values()
    each = sum(spec.dtype.size * math.prod(spec.shape) for spec in specs)
    what = f"{rows * len(specs):,} images of {options.height}x{options.width}x{options.channels}"
    advice = "use cache 'none' or smaller images, or pack them as pixels"
    check_memory(rows * (each + _OVERHEAD_BYTES), what, advice)
    return images.cache()


def free_memory_bytes() -> int:
    within_limit = memory_limit_mib() * MIB - psutil.Process().memory_info().rss
    return max(0, int(min(psutil.virtual_memory().available, within_limit)))


def check_memory(needed: int, what: str, advice: str) -> None:
    """Raises UsageError if a cache does not fit into free memory."""
    free = _MEMORY_SHARE * free_memory_bytes()
    if needed > free:
        raise UsageError(
            f"cache 'memory': {what} take {needed / _GIB:.2f} GiB, and {free / _GIB:.2f} GiB may "
            f"be taken of what is free; {advice}"
        )
