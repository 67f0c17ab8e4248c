"""Caches of rows after the first pass: in memory or, for images, on disk.

A cache on disk belongs to one process: an older one may hold other images.
"""

import atexit
import fcntl
import math
import shutil
import tempfile
from pathlib import Path
from typing import IO

import psutil
import tensorflow as tf

from penstock.components.errors import DataError, UsageError
from penstock.components.tfrecord.sharding import MIB
from penstock.components.trainer.input.options import ImageInputOptions
from penstock.components.trainer.utilisation.limits import memory_limit_mib

_GIB = 1 << 30
# The label, and the overhead of tf.data per element.
_OVERHEAD_BYTES = 512
# Leaves memory for the model and its batches.
_MEMORY_SHARE = 0.7
_DISK_SHARE = 0.9
_PREFIX = "penstock-images-"
_LOCK = ".lock"
# Open as long as the process lives: their locks say that the folders are in use.
_locks: list[IO[str]] = []


def cached(images: tf.data.Dataset, rows: int, options: ImageInputOptions) -> tf.data.Dataset:
    specs = images.element_spec[0].values()
    each = sum(spec.dtype.size * math.prod(spec.shape) for spec in specs)
    needed = rows * (each + _OVERHEAD_BYTES)
    what = f"{rows * len(specs):,} images of {options.height}x{options.width}x{options.channels}"
    others = " or ".join(f"{c!r}" for c in options.caches if c != options.cache)
    advice = f"use cache {others}, or smaller images"
    if options.cache == "memory":
        check_memory(needed, what, advice)
        return images.cache()
    assert options.cache_dir is not None
    try:
        Path(options.cache_dir).mkdir(parents=True, exist_ok=True)
        remove_leftovers(options.cache_dir)
        free = shutil.disk_usage(options.cache_dir).free
        _check_fits("disk", needed, _DISK_SHARE * free, what, advice)
        return images.cache(str(_own_folder(options.cache_dir) / "images"))
    except OSError as error:
        raise DataError(
            f"cache_dir {options.cache_dir}: cannot be written ({error.strerror}); name a folder "
            "on a disk of this machine"
        ) from error


def free_memory_bytes() -> int:
    within_limit = memory_limit_mib() * MIB - psutil.Process().memory_info().rss
    return max(0, int(min(psutil.virtual_memory().available, within_limit)))


def remove_leftovers(cache_dir: str) -> None:
    """Removes the caches in a folder whose processes are gone."""
    for lock in Path(cache_dir).glob(f"{_PREFIX}*/{_LOCK}"):
        try:
            with lock.open("r+") as held:
                fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(lock.parent, ignore_errors=True)
        except OSError:
            continue  # in use, or another user's


def check_memory(needed: int, what: str, advice: str) -> None:
    """Rejects a cache in memory that does not fit."""
    _check_fits("memory", needed, _MEMORY_SHARE * free_memory_bytes(), what, advice)


def _check_fits(cache: str, needed: int, free: float, what: str, advice: str) -> None:
    if needed > free:
        raise UsageError(
            f"cache {cache!r}: {what} take {needed / _GIB:.2f} GiB, and {free / _GIB:.2f} GiB may "
            f"be taken of what is free; {advice}"
        )


def _own_folder(cache_dir: str) -> Path:
    folder = Path(tempfile.mkdtemp(prefix=_PREFIX, dir=cache_dir))
    # Locked before it has the name that `remove_leftovers` looks for.
    unnamed = folder / f"{_LOCK}.new"
    lock = unnamed.open("w")
    fcntl.flock(lock, fcntl.LOCK_EX)
    unnamed.rename(folder / _LOCK)
    _locks.append(lock)
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder
