import os
from types import SimpleNamespace

import keras
import numpy as np
import psutil
import pytest

from penstock.components.trainer.utilisation import speed
from penstock.components.trainer.utilisation.speed import (
    Meter,
    available_cores,
    cgroup_cpu_seconds,
    kept_seconds,
    memory_limit_mib,
)


@pytest.fixture
def meter(monkeypatch):
    """A meter on two cores, with given wall seconds and CPU seconds of process and cgroup."""
    values = iter(
        [SimpleNamespace(wall=0, own=1, cgroup=5), SimpleNamespace(wall=10, own=9, cgroup=25)]
    )
    monkeypatch.setattr(speed, "_CpuSeconds", lambda: next(values))
    monkeypatch.setattr(speed, "available_cores", lambda: 2.0)
    monkeypatch.setattr(speed, "kept_seconds", lambda *_: (0.1, 0.2))
    meter = Meter()
    meter.start()
    return meter


def test_cpu_shares_are_of_the_cores_of_the_cgroup(meter):
    meter.add(4, 2.0)
    meter.add(4, 1.0)
    found = meter.speed(None, print, 4)
    assert (found.run_seconds, found.kept_seconds) == ((0.5, 0.25), (0.1, 0.2))
    assert (found.steps, found.cores, found.own_share) == (8, 2.0, 0.4)
    assert found.others_share == pytest.approx(0.6)
    assert found.gpu_idle_share is None


def test_last_calls_become_ten_parts(meter):
    for number in range(1000):
        meter.add(1, 1.0 if number >= 1000 - 512 else 9.0)
    found = meter.speed(None, print, 1)
    assert found.run_seconds == (1.0,) * 11
    assert found.steps == 512


def test_without_a_second_call_there_is_no_speed(meter):
    meter.add(1, 1.0)
    assert meter.speed(None, print, 1) is None


def test_all_workers_repeat_steps_whatever_their_clocks_say(meter, monkeypatch):
    ran = []
    monkeypatch.setattr(speed, "kept_seconds", lambda *_: ran.append(1) or (0.1, 0.2))
    meter.add(1, 0.05)  # so short that both count as one call
    meter.add(1, 0.05)
    assert meter.speed(None, print, 1) is None
    assert ran == [1]


class Nvml:
    """Replaces NVML, for a machine with two GPUs that are busy for 20 and 60 %."""

    class NVMLError(Exception):
        pass

    def nvmlInit(self):  # noqa: N802
        pass

    def nvmlDeviceGetCount(self):  # noqa: N802
        return 2

    def nvmlDeviceGetHandleByIndex(self, index):  # noqa: N802
        return index

    def nvmlDeviceGetUtilizationRates(self, handle):  # noqa: N802
        return SimpleNamespace(gpu=(20, 60)[handle])


@pytest.mark.parametrize(
    ("visible", "busy"), [("0,1", 0.4), ("1", 0.6), ("GPU-b", None), ("", None)]
)
def test_gpus_are_those_that_the_process_sees(visible, busy, monkeypatch):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    assert speed._Gpus(Nvml()).busy_share() == busy


def test_steps_on_a_kept_batch_leave_the_model_as_it_is():
    model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(1)])
    model.compile("sgd", "mse")
    before = [weight.numpy() for weight in model.weights]
    counts = []

    def run(steps):
        counts.append(steps)
        model.weights[0].assign_add(np.ones((2, 1)))

    assert len(kept_seconds(model, run, 100, 1000)) == 5
    assert counts == [1, 20, 20, 20, 20, 20]  # 1 step, then 5 calls for a tenth of 1000 steps
    for weight, value in zip(model.weights, before, strict=True):
        np.testing.assert_array_equal(weight.numpy(), value)


CPUS = len(os.sched_getaffinity(0))


@pytest.mark.parametrize(
    ("files", "cores"),
    [
        ({}, CPUS),
        ({"cpu.max": "50000 100000\n"}, 0.5),
        ({"cpu/cpu.cfs_quota_us": "25000\n", "cpu/cpu.cfs_period_us": "100000\n"}, 0.25),
        ({"cpu.max": "max 100000\n"}, CPUS),
        ({"cpu/cpu.cfs_quota_us": "-1\n", "cpu/cpu.cfs_period_us": "100000\n"}, CPUS),
    ],
)
def test_a_containers_quota_cuts_the_cores(tmp_path, files, cores):
    (tmp_path / "cpu").mkdir()
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    assert available_cores(tmp_path) == cores


def test_a_containers_limit_cuts_the_memory(tmp_path):
    machine = psutil.virtual_memory().total / 2**20
    assert memory_limit_mib(tmp_path) == machine
    for text, expected in (("max\n", machine), (f"{64 << 20}\n", 64)):
        (tmp_path / "memory.max").write_text(text)
        assert memory_limit_mib(tmp_path) == expected


def test_cpu_seconds_are_the_cgroups_and_only_without_one_the_machines(tmp_path):
    machine = psutil.cpu_times()
    assert cgroup_cpu_seconds(tmp_path) >= sum(machine) - machine.idle - 1
    (tmp_path / "cpu.stat").write_text("usage_usec 2500000\nuser_usec 2000000\n")
    assert cgroup_cpu_seconds(tmp_path) == 2.5
    (tmp_path / "cpuacct").mkdir()
    (tmp_path / "cpuacct/cpuacct.usage").write_text("1500000000\n")
    assert cgroup_cpu_seconds(tmp_path) == 1.5
