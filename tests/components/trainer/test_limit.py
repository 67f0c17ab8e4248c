import keras
import numpy as np
import pytest
import tensorflow as tf
from tensorflow.tsl.profiler.protobuf import xplane_pb2

from penstock.components.trainer import limit as limit_module
from penstock.components.trainer.limit import LimitSampler, _weights_kept, idle_share, idle_share_of
from penstock.components.trainer.steps import Steps


def measured(model, data, log_dir, *, total_steps=80, profile_steps=0):
    """The limit and the idle share after a run whose calls double."""
    steps = Steps(model, data, None, strategy=tf.distribute.get_strategy(), xla=False)
    steps.build()
    sampler = LimitSampler(model, steps, total_steps=total_steps, has_workers=False)
    steps.train(1)
    sampler.begin(1)
    step, count = 1, 1
    while step < total_steps:
        if sampler.wants_batch:
            sampler.step_on_kept_batch()
            step += 1
        step += count
        sampler.add_call(steps.train(count)[1], step)
        count = min(8, total_steps - step)
    idle = sampler.idle_share(profile_steps, str(log_dir))
    return sampler.limit(), idle


def test_weights_optimizer_and_random_state_come_out_as_they_went_in(tmp_path, toy):
    model = toy.build_model()
    model = keras.Sequential([*model.layers[1:], keras.layers.Dropout(0.5)])
    model.compile("adam", "mse")
    model.build((None, 1))
    model.optimizer.build(model.trainable_variables)
    before = [v.numpy() for v in (*model.variables, *model.optimizer.variables)]
    batches = toy.dataset().map(lambda x, y: (x["x"], y)).repeat()
    steps = Steps(model, batches, None, strategy=tf.distribute.get_strategy(), xla=False)
    steps.build()
    with _weights_kept(model):
        steps.repeat(steps.resident_batch(), 3)
    after = (*model.variables, *model.optimizer.variables)
    for old, new in zip(before, after, strict=True):
        np.testing.assert_array_equal(old, new)


def test_samples_of_a_long_run_lie_between_its_calls(tmp_path, toy, monkeypatch):
    monkeypatch.setattr(limit_module, "_PART_OF_TIME", 0)
    monkeypatch.setattr(limit_module, "_LONG_SECONDS", 0)
    limit, _ = measured(toy.build_model(), toy.dataset().repeat(), tmp_path)
    # Of ten samples the first keeps the batch; some calls pass two places.
    assert 7 <= len(limit.calls) == len(limit.run) <= 9
    assert 0 < limit.seconds < 0.5


def test_samples_of_a_short_run_follow_it(tmp_path, toy):
    taken = []
    data = toy.slowed(toy.dataset(), lambda: taken.append(1)).repeat()
    limit, _ = measured(toy.build_model(), data, tmp_path)
    assert (len(limit.calls), limit.run) == (10, ())
    assert 81 <= len(taken) < 120  # one for the samples; tf.data fetches some ahead


def test_a_profile_is_taken_where_it_is_asked_for(tmp_path, toy):
    _, idle = measured(toy.build_model(), toy.dataset().repeat(), tmp_path, profile_steps=3)
    assert idle is None  # of no GPU
    assert len(list(tmp_path.glob("plugins/profile/*/*.xplane.pb"))) == 1
    measured(toy.build_model(), toy.dataset().repeat(), tmp_path / "none")
    assert not (tmp_path / "none").exists()


def test_texts_stay_on_the_host():
    features = {"text": tf.constant([["a"], ["b"]])}
    model = keras.Sequential([keras.layers.Dense(1)])
    model.compile("adam", "mse")
    data = tf.data.Dataset.from_tensors((features, tf.sparse.from_dense([[1.0], [0.0]]))).repeat()
    steps = Steps(model, data, None, strategy=tf.distribute.get_strategy(), xla=False)
    batch, label = steps.resident_batch()
    assert batch["text"].numpy().tolist() == [[b"a"], [b"b"]]
    assert tf.sparse.to_dense(label).numpy().tolist() == [[1.0], [0.0]]


def space(**planes):
    """An XSpace of lines by plane and name; a line's events are name, begin and end in ps."""
    made = xplane_pb2.XSpace()
    for name, lines in planes.items():
        plane = made.planes.add(name=name.replace("_", "/device:GPU:"))
        for line_name, events in lines.items():
            line = plane.lines.add(name=line_name, timestamp_ns=1_700_000_000_000_000_000)
            for event, begin, end in events:
                number = len(plane.event_metadata) + 1
                plane.event_metadata[number].name = event
                line.events.add(metadata_id=number, offset_ps=begin, duration_ps=end - begin)
    return made


# The names are those of a trace of TensorFlow's profiler on V100s.
GPU = {
    "Stream #134(Compute)": [("ampere_sgemm_32x32", 100, 200), ("EigenMetaKernel", 400, 500)],
    "Stream #135(MemcpyH2D)": [("MemcpyH2D", 0, 400)],
    "Stream #136(Compute)": [("fusion_2", 150, 250), ("fusion_2", 160, 170)],
    "TensorFlow Ops": [("model/dense/MatMul:MatMul", 0, 900)],
    "Steps": [("0", 0, 900)],
}


def test_idle_share_is_the_time_without_a_kernel():
    # 150 of the 400 from 100 to 500: the streams overlap, copies and derived lines do not count.
    assert idle_share(space(_0=GPU)) == pytest.approx(0.375)
    busy = {"Stream #7(Compute)": [("a", 0, 5), ("b", 5, 10)]}
    assert idle_share(space(_0=busy)) == 0.0
    assert idle_share(space(_0=GPU, _1=busy, _2={})) == pytest.approx(0.1875)


def test_without_kernels_there_is_no_share():
    only_copies = {"Stream #135(MemcpyH2D)": [("MemcpyH2D", 0, 400), ("Memset", 400, 500)]}
    assert idle_share(space(host=GPU, _0=only_copies)) is None


def test_a_profile_is_left_for_tensorboard(tmp_path):
    done = []
    share = idle_share_of(lambda: done.append(tf.reduce_sum(tf.ones([8])).numpy()), str(tmp_path))
    assert (share, done) == (None, [8.0])
    (profile,) = tmp_path.glob("plugins/profile/*/*.xplane.pb")
    assert profile.stat().st_size > 0
