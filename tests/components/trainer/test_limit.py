import keras
import numpy as np
import tensorflow as tf

from penstock.components.trainer.limit import measure_limits
from penstock.components.trainer.options import TrainOptions
from penstock.components.trainer.steps import Steps


def measured(model, data, log_dir, **options):
    steps = Steps(model, data, None, strategy=tf.distribute.get_strategy(), xla=False)
    steps.build()
    return measure_limits(
        model,
        steps,
        options=TrainOptions(max_steps=80, **options),
        trained_steps=80,
        seconds_per_step=0.01,
        log_dir=str(log_dir),
    )


def test_weights_optimizer_and_random_state_come_out_as_they_went_in(tmp_path, toy):
    model = toy.build_model()
    model = keras.Sequential([*model.layers[1:], keras.layers.Dropout(0.5)])
    model.compile("adam", "mse")
    model.build((None, 1))
    model.optimizer.build(model.trainable_variables)
    before = [v.numpy() for v in (*model.variables, *model.optimizer.variables)]
    batches = toy.dataset().map(lambda x, y: (x["x"], y)).repeat()
    limit, _ = measured(model, batches, tmp_path)
    assert len(limit.calls) == 10
    assert 0 < limit.seconds < 0.1
    after = (*model.variables, *model.optimizer.variables)
    for old, new in zip(before, after, strict=True):
        np.testing.assert_array_equal(old, new)


def test_one_batch_is_taken_and_repeated(tmp_path, toy):
    taken = []
    data = toy.slowed(toy.dataset(), lambda: taken.append(1)).repeat()
    measured(toy.build_model(), data, tmp_path)
    assert len(taken) <= 2  # tf.data fetches one ahead


def test_a_profile_is_taken_where_it_is_asked_for(tmp_path, toy):
    _, idle = measured(toy.build_model(), toy.dataset().repeat(), tmp_path, profile_steps=3)
    assert idle is None  # of no GPU
    assert len(list(tmp_path.glob("plugins/profile/*/*.xplane.pb"))) == 1
    measured(toy.build_model(), toy.dataset().repeat(), tmp_path / "none")
    assert not (tmp_path / "none").exists()


def test_data_that_ends_or_fails_leaves_the_training_as_it_is(tmp_path, toy, caplog):
    assert measured(toy.build_model(), toy.dataset().take(0), tmp_path) == (None, None)
    assert caplog.messages == ["what the input costs was not measured: no batch is left"]


def test_texts_stay_on_the_host():
    features = {"text": tf.constant([["a"], ["b"]])}
    model = keras.Sequential([keras.layers.Dense(1)])
    model.compile("adam", "mse")
    data = tf.data.Dataset.from_tensors((features, tf.sparse.from_dense([[1.0], [0.0]]))).repeat()
    steps = Steps(model, data, None, strategy=tf.distribute.get_strategy(), xla=False)
    batch, label = steps.resident_batch()
    assert batch["text"].numpy().tolist() == [[b"a"], [b"b"]]
    assert tf.sparse.to_dense(label).numpy().tolist() == [[1.0], [0.0]]
