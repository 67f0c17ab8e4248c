from types import SimpleNamespace

import keras
import numpy as np
import pytest

from penstock.components.trainer.utilisation import speed
from penstock.components.trainer.utilisation.speed import Meter, kept_seconds


@pytest.fixture
def meter(monkeypatch):
    """A meter that reads wall, own and cgroup CPU seconds of two of 64 cores."""
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


def test_without_a_second_call_or_a_batch_there_is_no_speed(meter):
    meter.add(1, 1.0)
    assert meter.speed(None, print, 1) is None
    meter.add(1, 1.0)
    assert meter.speed(None, None, 1) is None


def test_all_workers_repeat_steps_whatever_their_clocks_say(meter, monkeypatch):
    ran = []
    monkeypatch.setattr(speed, "kept_seconds", lambda *_: ran.append(1) or (0.1, 0.2))
    meter.add(1, 0.05)  # so short that both count as one call
    meter.add(1, 0.05)
    assert meter.speed(None, print, 1) is None
    assert ran == [1]


class Nvml:
    """Stands for NVML on a machine with two GPUs, busy for 20 and 60 %."""

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
    assert counts == [1, 20, 20, 20, 20, 20]  # at most a tenth of the run's steps in all
    for weight, value in zip(model.weights, before, strict=True):
        np.testing.assert_array_equal(weight.numpy(), value)
