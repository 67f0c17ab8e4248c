from contextlib import nullcontext
from types import SimpleNamespace

import keras
import pytest
import tensorflow as tf

from penstock.components.trainer.model_setup import make_model


@pytest.mark.parametrize(
    ("replicas", "synchronized", "is_told"), [(1, False, False), (2, True, False), (2, False, True)]
)
def test_statistics_of_a_replica_alone_are_told(our_messages, replicas, synchronized, is_told):
    # Two devices would need a process of their own: what is asked of a strategy is this.
    strategy = SimpleNamespace(scope=nullcontext, num_replicas_in_sync=replicas)
    norm = keras.layers.BatchNormalization

    def build_model():
        frozen, one = norm(trainable=False), norm(name="one", synchronized=synchronized)
        model = keras.Sequential([keras.Input((2,)), frozen, one, keras.layers.Dense(1)])
        model.compile("sgd", "mse")
        return model

    data = tf.data.Dataset.from_tensors((tf.zeros([1, 2]), tf.zeros([1, 1])))
    make_model(build_model, data, None, strategy)
    message = (
        "one: each of the 2 replicas uses the mean of its own rows; "
        "BatchNormalization(synchronized=True) uses that of all rows"
    )
    assert our_messages() == [message] * is_told


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
