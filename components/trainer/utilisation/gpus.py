"""Reads load and memory of this process's NVIDIA GPUs by NVML; finds none without a driver."""

import logging
import os
from dataclasses import dataclass
from typing import Any

from penstock.components.tfrecord.sharding import MIB

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class GpuReading:
    busy_share: float  # 0..1, share of time with a running kernel, over the last 1/6 to 1 s
    memory_mib: float  # memory in use by all processes


@dataclass(frozen=True)
class Gpu:
    """A GPU that this process may use: NVML's index, NVIDIA's name, and its memory."""

    index: int
    name: str
    memory_total_mib: float
    _nvml: Any
    _handle: Any

    def read(self) -> GpuReading:
        """Reads load and memory in about a millisecond; OSError if the driver does not answer."""
        try:
            busy = self._nvml.nvmlDeviceGetUtilizationRates(self._handle).gpu
            used = self._nvml.nvmlDeviceGetMemoryInfo(self._handle).used
        except self._nvml.NVMLError as error:
            raise OSError(f"GPU {self.index} ({self.name}) cannot be read: {error}") from error
        return GpuReading(busy / 100, used / MIB)


def open_gpus(nvml: Any | None = None, visible: str | None = None) -> tuple[Gpu, ...]:
    """Returns the readable GPUs of this process; `visible` is `CUDA_VISIBLE_DEVICES`."""
    nvml = nvml or _pynvml()
    try:
        nvml.nvmlInit()
        count = nvml.nvmlDeviceGetCount()
    except nvml.NVMLError:
        return ()  # no driver, no GPU
    chosen = visible if visible is not None else os.environ.get("CUDA_VISIBLE_DEVICES")
    names = [str(i) for i in range(count)] if chosen is None else _until_invalid(chosen, count)
    found = (_open(nvml, name) for name in names)
    return tuple(gpu for gpu in found if gpu is not None)


def _pynvml() -> Any:
    import pynvml

    return pynvml


def _until_invalid(visible: str, count: int) -> list[str]:
    """Returns the entries before the first invalid one, as CUDA ignores all after it."""
    names: list[str] = []
    for name in (part.strip() for part in visible.split(",")):
        if not name.startswith(("GPU-", "MIG-")) and not (name.isdigit() and int(name) < count):
            break
        names.append(name)
    return names


def _open(nvml: Any, name: str) -> Gpu | None:
    try:
        if name.isdigit():
            handle = nvml.nvmlDeviceGetHandleByIndex(int(name))
        else:
            handle = nvml.nvmlDeviceGetHandleByUUID(name)
        total = nvml.nvmlDeviceGetMemoryInfo(handle).total / MIB
        model = nvml.nvmlDeviceGetName(handle)
        index = nvml.nvmlDeviceGetIndex(handle)
        gpu = Gpu(index, model if isinstance(model, str) else model.decode(), total, nvml, handle)
        gpu.read()
    except (nvml.NVMLError, OSError) as error:
        # A slice of a GPU (MIG) has no utilisation figure of its own.
        logger.warning("GPU %s is not on record: %s", name, error)
        return None
    return gpu
