from types import SimpleNamespace

import pytest

from penstock.components.trainer.utilisation.gpus import GpuReading, open_gpus


class FakeNvml:
    """NVML of a machine that the tests cannot have: two GPUs, and a slice without utilisation."""

    class NVMLError(Exception):
        pass

    def __init__(self, gpus=2, driver=True):
        self.gpus = gpus
        self.driver = driver

    def nvmlInit(self):  # noqa: N802
        if not self.driver:
            raise self.NVMLError("Driver Not Loaded")

    def nvmlDeviceGetCount(self):  # noqa: N802
        return self.gpus

    def nvmlDeviceGetHandleByIndex(self, index):  # noqa: N802
        return index

    def nvmlDeviceGetHandleByUUID(self, uuid):  # noqa: N802
        return {"GPU-aaaa": 0, "GPU-bbbb": 1, "MIG-cccc": "slice"}[uuid]

    def nvmlDeviceGetIndex(self, handle):  # noqa: N802
        return handle

    def nvmlDeviceGetName(self, handle):  # noqa: N802
        return b"H200" if handle == 1 else "H100"

    def nvmlDeviceGetMemoryInfo(self, handle):  # noqa: N802
        return SimpleNamespace(used=256 << 20, total=1 << 30)

    def nvmlDeviceGetUtilizationRates(self, handle):  # noqa: N802
        if handle == "slice":
            raise self.NVMLError("Not Supported")
        return SimpleNamespace(gpu=25 + 50 * handle)


def test_a_machine_without_a_gpu_has_none():
    assert open_gpus(visible=None) == ()
    assert open_gpus(FakeNvml(driver=False)) == ()
    assert open_gpus(FakeNvml(gpus=0)) == ()


def test_every_gpu_is_read(monkeypatch):
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    first, second = open_gpus(FakeNvml())
    assert (first.index, first.name, first.memory_total_mib) == (0, "H100", 1024.0)
    assert (second.index, second.name) == (1, "H200")
    assert first.read() == GpuReading(busy_share=0.25, memory_mib=256.0)
    assert second.read() == GpuReading(busy_share=0.75, memory_mib=256.0)


@pytest.mark.parametrize(
    ("visible", "indices"),
    [
        ("1", [1]),
        ("1,0", [1, 0]),
        ("GPU-bbbb", [1]),
        ("", []),
        ("-1", []),
        # CUDA stops at what is no GPU.
        ("0,7,1", [0]),
    ],
)
def test_only_what_cuda_shows_the_process_counts(visible, indices):
    assert [gpu.index for gpu in open_gpus(FakeNvml(), visible)] == indices


def test_what_the_environment_says_counts(monkeypatch):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "1")
    assert [gpu.index for gpu in open_gpus(FakeNvml())] == [1]


def test_a_slice_without_utilisation_is_left_out_and_said(caplog):
    assert open_gpus(FakeNvml(), "MIG-cccc") == ()
    assert "GPU MIG-cccc is not on record" in caplog.text


def test_a_gpu_that_is_gone_says_so():
    nvml = FakeNvml()
    gpu, _ = open_gpus(nvml, "0,1")

    def lost(_handle):
        raise nvml.NVMLError("GPU is lost")

    nvml.nvmlDeviceGetUtilizationRates = lost
    with pytest.raises(OSError, match=r"GPU 0 \(H100\) cannot be read: GPU is lost"):
        gpu.read()
