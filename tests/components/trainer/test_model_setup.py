from contextlib import nullcontext
from types import SimpleNamespace

import keras
import pytest

from penstock.components.trainer.model_setup import make_model


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
    make_model(model_of(*layers, frozen), strategy=strategy)
    assert our_messages() == warnings


@pytest.mark.parametrize("before", [None, "false"])
def test_memory_growth_is_set_before_tensorflow_opens_a_gpu(penstock, before):
    code = """
        import os, sys
        if sys.argv[1:]: os.environ["TF_FORCE_GPU_ALLOW_GROWTH"] = sys.argv[1]
        else: os.environ.pop("TF_FORCE_GPU_ALLOW_GROWTH", None)
        [sys.modules.pop(name) for name in list(sys.modules) if "penstock.components.tr" in name]
        import penstock
        penstock.training.Input
        print(os.environ["TF_FORCE_GPU_ALLOW_GROWTH"])
    """
    done = penstock.run_code(code, *([before] if before else []))
    assert done.stdout.split() == [before or "true"]
