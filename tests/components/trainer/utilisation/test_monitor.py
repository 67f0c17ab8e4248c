import threading
import time
from itertools import pairwise

import pytest

from penstock.components.trainer.utilisation.gpus import GpuReading
from penstock.components.trainer.utilisation.monitor import Monitor


class OneGpu:
    index, name, memory_total_mib = 3, "H200", 1024.0

    def __init__(self, looks):
        self.looks = looks

    def read(self):
        self.looks -= 1
        if self.looks < 0:
            raise OSError("GPU 3 (H200) cannot be read: GPU is lost")
        return GpuReading(0.5, 256.0)


def burn(cpu_seconds):
    end = time.process_time() + cpu_seconds
    while time.process_time() < end:
        sum(range(1000))


def wait_for(monitor, looks):
    """Waits until the monitor has looked so often from now on."""
    before = monitor.latest
    for _ in range(looks):
        while monitor.latest is before:
            time.sleep(0.005)
        before = monitor.latest


def cpu_seconds(seen):
    """CPU time of the process that the samples add up to."""
    steps = zip((seen.seconds[0] - 0.1, *seen.seconds), seen.seconds, strict=False)
    times = [after - before for before, after in steps]
    return sum(cores * time for cores, time in zip(seen.process_cores, times, strict=True))


def test_it_sees_a_core_that_is_busy_and_one_that_is_not():
    with Monitor(interval_seconds=0.1, gpus=()) as busy:
        burn(0.8)
        wait_for(busy, 3)
    with Monitor(interval_seconds=0.1, gpus=()) as idle:
        wait_for(idle, 3)
    for monitor in (busy, idle):
        seen = monitor.series()
        assert len(seen.seconds) >= 3
        assert list(seen.seconds) == sorted(seen.seconds)
        assert all(10 < mib < monitor.memory_limit_mib for mib in seen.memory_mib)
        assert 0 < monitor.free_memory_mib < monitor.memory_limit_mib
        assert monitor.missed is None
    assert 0.4 < cpu_seconds(busy.series()) < 1.2
    assert cpu_seconds(idle.series()) < 0.3


def test_a_look_costs_little():
    with Monitor(interval_seconds=0.02, gpus=()) as monitor:
        wait_for(monitor, 20)
    looks = len(monitor.series().seconds)
    assert 0 < monitor.cpu_seconds / looks < 0.002


def test_a_late_look_is_not_followed_by_one_over_an_instant():
    class SlowGpu(OneGpu):
        def read(self):
            time.sleep(0.25)
            return super().read()

    with Monitor(interval_seconds=0.1, gpus=[SlowGpu(100)]) as monitor:
        wait_for(monitor, 3)
    seconds = monitor.series().seconds
    assert len(seconds) >= 3
    assert min(after - before for before, after in pairwise(seconds)) > 0.29


def test_gpus_are_looked_at_too():
    with Monitor(interval_seconds=0.05, gpus=[OneGpu(100)]) as monitor:
        wait_for(monitor, 1)
    (gpu,) = monitor.series().gpus
    assert (gpu.index, gpu.name, gpu.memory_total_mib) == (3, "H200", 1024.0)
    assert set(gpu.busy_share) == {0.5}
    assert set(gpu.memory_mib) == {256.0}
    assert monitor.latest.gpus == [GpuReading(0.5, 256.0)]


def test_a_look_that_fails_ends_the_looking_and_is_on_record(caplog):
    with Monitor(interval_seconds=0.02, gpus=[OneGpu(2)]) as monitor:
        monitor._thread.join()
    assert len(monitor.series().seconds) == 2
    assert monitor.missed == "GPU 3 (H200) cannot be read: GPU is lost"
    assert "utilisation is not on record from here on: GPU 3" in caplog.text


def test_its_thread_ends_with_it_whatever_happens():
    with pytest.raises(KeyError), Monitor(gpus=()):
        assert "penstock-monitor" in {thread.name for thread in threading.enumerate()}
        raise KeyError
    assert "penstock-monitor" not in {thread.name for thread in threading.enumerate()}
