import keras
import tensorflow as tf

from penstock.components.trainer.loop import train
from penstock.components.trainer.options import TrainOptions


class Least(keras.Model):
    """Stores the least value of each of its inputs."""

    def __init__(self):
        super().__init__()
        self.least = {
            name: self.add_weight(shape=(), initializer="zeros", trainable=False) for name in "ab"
        }
        self.bias = self.add_weight(shape=(), initializer="zeros")

    def call(self, features):
        for name, variable in self.least.items():
            variable.assign(-tf.reduce_max(-features[name]))
        return self.bias * features["a"]


def test_step_of_a_model_takes_the_maximum_of_the_input_that_it_names(tmp_path):
    def build_model():
        model = Least()
        model.compile("sgd", "mse", jit_compile=False)
        return model

    rows = {"a": tf.constant([[1.0], [2.0]]), "b": tf.constant([[5.0], [7.0]])}
    data = tf.data.Dataset.from_tensors((rows, tf.zeros([2, 1]))).repeat()
    options = TrainOptions(max_steps=2)
    trained = train(build_model, data, options=options, model_run_dir=str(tmp_path))
    # For two outputs of an iterator, TensorFlow's optimiser would use the first one for both.
    assert [float(variable) for variable in trained.model.least.values()] == [1.0, 5.0]
