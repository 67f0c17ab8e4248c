from contextlib import nullcontext
from types import SimpleNamespace

import keras
import pytest
import tensorflow as tf

from penstock.components.trainer import model_setup
from penstock.components.trainer.model_setup import make_model, prefetches_to_device


def model_of(*layers):
    def build_model():
        model = keras.Sequential([keras.Input((2,)), *layers, keras.layers.Dense(1)])
        model.compile("sgd", "mse")
        return model

    return build_model


@pytest.mark.parametrize(
    ("replicas", "synchronized", "warnings"),
    [
        (1, False, []),
        (2, True, []),
        (
            2,
            False,
            [
                "one and 1 other BatchNormalization layers: each of the 2 replicas uses the "
                "mean of its own rows; BatchNormalization(synchronized=True) uses that of all rows"
            ],
        ),
    ],
)
def test_statistics_of_a_replica_alone_are_told(our_messages, replicas, synchronized, warnings):
    # Two devices would need a process of their own: what is asked of a strategy is this.
    strategy = SimpleNamespace(scope=nullcontext, num_replicas_in_sync=replicas)
    norm = keras.layers.BatchNormalization
    frozen = norm(trainable=False)
    layers = [norm(name=name, synchronized=synchronized) for name in ("one", "two")]
    make_model(model_of(*layers, frozen), strategy=strategy, mixed_precision="none")
    assert our_messages() == warnings


class Gpus:
    """Stands for `tf.config` of a machine with GPUs of one compute capability."""

    def __init__(self, *capabilities):
        self.capabilities, self.growing = capabilities, []
        self.experimental = SimpleNamespace(
            get_device_details=lambda gpu: {"compute_capability": gpu},
            set_memory_growth=lambda gpu, is_on: self.growing.append((gpu, is_on)),
        )

    def list_physical_devices(self, kind):
        assert kind == "GPU"
        return list(self.capabilities)

    list_logical_devices = list_physical_devices


@pytest.mark.parametrize(
    ("capabilities", "kind"),
    [((), "none"), (((9, 0),), "bfloat16"), (((9, 0), (7, 5)), "float16")],
)
def test_automatic_precision_follows_the_device(monkeypatch, capabilities, kind):
    monkeypatch.setattr(tf, "config", Gpus(*capabilities))
    assert model_setup._kind_for_gpus() == kind


def test_batches_of_numbers_are_copied_to_a_gpu_ahead_by_default(monkeypatch):
    numbers = tf.data.Dataset.from_tensors(({"x": [1.0]}, [1.0]))
    texts = tf.data.Dataset.from_tensors(({"x": ["a"]}, [1.0]))
    assert not prefetches_to_device(None, (numbers, None))
    monkeypatch.setattr(tf, "config", Gpus((9, 0)))
    assert prefetches_to_device(None, (numbers, None))
    assert not prefetches_to_device(None, (numbers, texts))
    assert not prefetches_to_device(False, (numbers, None))


def test_memory_of_every_gpu_grows(monkeypatch):
    gpus = Gpus((9, 0), (8, 0))
    monkeypatch.setattr(tf, "config", gpus)
    model_setup.set_memory_growth()
    assert gpus.growing == [((9, 0), True), ((8, 0), True)]
