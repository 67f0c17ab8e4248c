"""Two real processes on loopback train one model, compared with one process on the same batches."""

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
from functools import partial

import numpy as np
import pytest
import tensorflow as tf

from penstock.components.errors import UsageError
from penstock.components.trainer import loop, workers
from penstock.components.trainer.options import TrainOptions
from tests.components.trainer.conftest import counting_model
from tests.free_ports import free_port

# 103 steps of 10 rows are 10 passes over 103 rows, in three epochs.
OPTIONS = TrainOptions(max_steps=103, steps_per_epoch=40, checkpoint_every_steps=7)


def evaluation(make_input):
    """15 rows in batches of 7: the last batch has one row, less than one per worker."""
    return make_input("rows", seed=1).unbatch().take(15).batch(7)


def run(folder, data, make_input):
    return loop.train(
        counting_model,
        data,
        evaluation(make_input),
        options=OPTIONS,
        model_run_dir=str(folder / "run"),
        resume_dir=str(folder / "resume"),
    )


# Forks the workers of each round, one or two. A round defines, for each worker, a signal that it
# sends to itself and the checkpoint at which it does so, or neither. A worker stopped by SIGSTOP is
# killed when the other one has ended.
HOST = """
    import json, os, signal, sys, time
    from dataclasses import replace
    from functools import partial
    from pathlib import Path
    from tests.components.trainer import test_workers
    from tests.components.trainer.conftest import Inputs
    from tests.components.trainer.test_resume import stopper
    from tests.free_ports import free_port
    from penstock.components.trainer.checkpoints import Checkpoints
    from penstock.components.trainer.workers import join_workers

    folder, source, rounds = Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3]

    def work(index, ports, step, name):
        stop = stopper(step, lambda: os.kill(os.getpid(), getattr(signal, name)))
        save = Checkpoints.save
        def saved(self, start, *arguments, **more):
            stop(start.step)
            save(self, start, *arguments, **more)
        Checkpoints.save = saved
        task = {"type": "worker", "index": index}
        addresses = [f"127.0.0.1:{port}" for port in ports]
        os.environ["TF_CONFIG"] = json.dumps({"cluster": {"worker": addresses}, "task": task})
        join_workers(timeout_seconds=30)
        inputs = Inputs(source)
        trained = test_workers.run(folder, partial(inputs, "rows", seed=3), inputs)
        if trained.is_chief:
            metrics = [dict(epoch.metrics) for epoch in trained.record.epochs]
            weights = [weight.tolist() for weight in trained.model.get_weights()]
            Path(folder, "result.json").write_text(json.dumps({
                "metrics": metrics, "weights": weights, "resumed": trained.record.resumed_from,
                "replicas": trained.record.replicas, "seen": trained.model.seen.numpy().tolist(),
            }))
        trained.discard_checkpoints()

    def codes(children):
        ended, stopped = {}, []
        while len(ended) < len(children):
            child, status = os.waitpid(-1, os.WUNTRACED)
            if os.WIFSTOPPED(status):
                stopped.append(child)
            else:
                ended[child] = os.waitstatus_to_exitcode(status)
            if len(ended) + len(stopped) == len(children):
                [os.kill(stopped.pop(), signal.SIGKILL) for _ in stopped[:]]
        return [ended[child] for child in children]

    for number, stops in enumerate(json.loads(rounds)):
        seconds = 60 if any(name == "SIGSTOP" for _, name in stops) else 1800
        test_workers.OPTIONS = replace(test_workers.OPTIONS, collective_timeout_seconds=seconds)
        ports = [free_port() for _ in stops]
        children = []
        for index, (step, name) in enumerate(stops):
            children.append(os.fork())
            if children[-1] == 0:
                os.dup2(os.open(folder / f"log-{number}-{index}", os.O_WRONLY | os.O_CREAT), 2)
                try:
                    work(index, ports, step, name)
                    os._exit(0)
                except Exception:
                    try:
                        sys.excepthook(*sys.exc_info())
                        os._exit(1)
                    except SystemExit as end:
                        os._exit(end.code)
        print(json.dumps(codes(children)))
"""


def start_rounds(penstock, folder, make_input, *rounds):
    """Runs rounds; returns exit codes by round and worker, and the stderr of each worker."""
    done = penstock.run_code(HOST, folder, make_input.root, json.dumps(rounds))
    assert done.returncode == 0, done.stderr[-2000:]
    codes = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("[")]
    logs = [
        [(folder / f"log-{n}-{i}").read_text() for i in range(len(stops))]
        for n, stops in enumerate(rounds)
    ]
    return codes, logs


def run_rounds(penstock, folder, make_input, *rounds):
    """Runs rounds as `start_rounds` does; also returns the result of the last round."""
    codes, logs = start_rounds(penstock, folder, make_input, *rounds)
    assert (folder / "result.json").exists(), logs[-1][0][-2000:]
    return codes, logs, json.loads((folder / "result.json").read_text())


def united(make_input, start):
    """The batches of both workers, joined."""
    shares = [
        make_input("rows", seed=3, start=start, input_context=tf.distribute.InputContext(2, i, 2))
        for i in (0, 1)
    ]
    return tf.data.Dataset.zip(tuple(shares)).map(
        lambda a, b: tf.nest.map_structure(lambda *parts: tf.concat(parts, 0), a, b)
    )


@pytest.fixture(scope="module")
def trained_alone(make_input, tmp_path_factory):
    """The result of a training with one worker on the batches of two workers."""
    return run(tmp_path_factory.mktemp("one"), partial(united, make_input), make_input)


def assert_as_one_worker(result, one):
    assert one.model.seen.numpy().tolist() == [10] * 103
    assert result["seen"] == [10] * 103
    assert result["replicas"] == 2
    for ours, epoch in zip(result["metrics"], one.record.epochs, strict=True):
        assert ours == pytest.approx(dict(epoch.metrics), rel=1e-5)
    for ours, theirs in zip(result["weights"], one.model.get_weights(), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-5)


NOTHING = [0, "SIGTERM"]


@pytest.fixture(scope="module")
def killed(make_input, tmp_path_factory, penstock):
    """Folder of a training of two workers, one of which was killed after step 28."""
    folder = tmp_path_factory.mktemp("killed")
    codes, [[log, _]] = start_rounds(penstock, folder, make_input, [NOTHING, [28, "SIGKILL"]])
    assert codes == [[138, -signal.SIGKILL]]
    assert "penstock: worker 0 of 2 stops, as worker 1 (127.0.0.1:" in log
    return folder


@pytest.mark.slow
def test_two_workers_train_as_one_whatever_becomes_of_them(
    make_input, killed, trained_alone, tmp_path, penstock
):
    shutil.copytree(killed, tmp_path, dirs_exist_ok=True)
    rounds = [[56, "SIGTERM"], NOTHING], [NOTHING, NOTHING]
    codes, logs, result = run_rounds(penstock, tmp_path, make_input, *rounds)
    assert codes == [[143, 143], [0, 0]]
    # All workers stop at the same step: the step of the signal, or the last step of the next call
    # into TensorFlow.
    [step] = {
        log[log.index(" at step ") :].split()[2]
        for log, told in zip(logs[0], ("SIGTERM", "another worker was told to stop"), strict=True)
        if f"penstock: {told} at step" in log
    }
    assert result["resumed"] == int(step) >= 56
    assert not (tmp_path / "resume").exists()
    assert [path.name for path in (tmp_path / "run").glob("*.json")] == ["training.json"]
    assert_as_one_worker(result, trained_alone)


@pytest.mark.slow
def test_one_of_two_workers_goes_on_alone_after_the_other_is_killed(
    make_input, killed, trained_alone, tmp_path, penstock
):
    shutil.copytree(killed, tmp_path, dirs_exist_ok=True)
    codes, _, result = run_rounds(penstock, tmp_path, make_input, [NOTHING])
    assert codes == [[0]]
    assert (result["resumed"], result["replicas"]) == (21, 1)
    assert result["seen"] == [10] * 103
    for ours, epoch in zip(result["metrics"], trained_alone.record.epochs, strict=True):
        assert ours == pytest.approx(dict(epoch.metrics), rel=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("stopped", [0, 1])
def test_a_worker_ends_in_one_line_where_the_other_is_stopped(
    make_input, trained_alone, tmp_path, stopped, penstock
):
    stops = [NOTHING, NOTHING]
    stops[stopped] = [28, "SIGSTOP"]
    codes, logs, result = run_rounds(penstock, tmp_path, make_input, stops, [NOTHING, NOTHING])
    assert codes[0][stopped] == -signal.SIGKILL
    assert codes[0][1 - stopped] == 138
    last = logs[0][1 - stopped].splitlines()[-1]
    assert last.startswith(f"penstock: worker {1 - stopped} of 2 stops")
    assert codes[1] == [0, 0]
    assert result["resumed"] >= 21
    assert_as_one_worker(result, trained_alone)


def test_a_worker_that_never_comes_is_named_within_the_timeout():
    here, there = (f"127.0.0.1:{free_port()}" for _ in range(2))
    with pytest.raises(
        workers.WorkerLostError,
        match=rf"worker 1 of 2 waited 1 s in vain for worker 0 \({there}\); see why it does not",
    ):
        workers._meet((there, here), 1, 1)


@pytest.mark.slow
def test_a_worker_ends_where_another_hangs():
    code = (
        "import time; from penstock.components.trainer.workers import Workers\n"
        "with Workers(None, ('a:1', 'b:2'), 1).watched(0.1): time.sleep(60)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 138
    assert done.stderr.splitlines()[-1] == (
        "penstock: worker 1 of 2 stops: no step ended in 0.1 s, as another hangs; start all "
        "again, they continue from the last checkpoint"
    )


def test_each_sum_over_the_workers_counts_as_a_step_that_ended():
    one = workers.Workers(tf.distribute.get_strategy(), ("a:1",), 0)
    assert one.total([3, 4]) == [3, 4]
    assert one._moved.is_set()


def test_a_worker_whose_others_have_left_after_the_last_sum_ends_well():
    class Left:
        def reduce(self, *_, **__):
            raise tf.errors.UnavailableError(None, None, "/task:0 is gone")

    workers.Workers(Left(), ("a:1", "b:2"), 1).leave_together()


class _Late(threading.Event):
    """Delays `clear` until the end of the training has set the event for the second time."""

    def __init__(self):
        super().__init__()
        self.clears, self.sets, self.ended = threading.Event(), 0, threading.Event()

    def clear(self):
        self.clears.set()
        self.ended.wait()
        super().clear()

    def set(self):
        super().set()
        self.sets += 1
        if self.sets == 2:
            self.ended.set()


def test_a_training_that_ends_while_its_watch_notes_a_step_is_not_ended_by_it(monkeypatch):
    ends = []
    monkeypatch.setattr(workers.os, "_exit", ends.append)
    late = _Late()
    with workers.Workers(None, ("a:1",), 0, late).watched(0.01):
        late.clears.wait()
    assert ends == []


def test_a_port_that_is_taken_is_named():
    with socket.create_server(("", 0)) as door:
        port = door.getsockname()[1]
        with pytest.raises(UsageError, match=rf"port {port} of worker 0 is taken on this machine"):
            workers._meet((f"127.0.0.1:{port}", "127.0.0.1:1"), 0, 1)


def test_sigterm_ends_a_worker_that_waits(monkeypatch):
    """Workers set no SIGTERM handler; this test's handler raises, like that of `penstock node`."""

    def stop(*_):
        raise InterruptedError

    # The other worker never answers, and the signal arrives during the wait for it.
    monkeypatch.setattr(workers, "_answers", lambda _: os.kill(os.getpid(), signal.SIGTERM))
    before = signal.signal(signal.SIGTERM, stop)
    try:
        with pytest.raises(InterruptedError):
            workers._meet((f"127.0.0.1:{free_port()}", "127.0.0.1:1"), 0, 60)
    finally:
        signal.signal(signal.SIGTERM, before)


def config(cluster, task):
    return json.dumps({"cluster": cluster, "task": task})


def test_the_tasks_of_tf_config():
    text = config({"chief": ["a:1"], "worker": ["b:2"]}, {"type": "worker", "index": 0})
    assert workers._tasks(text) == (("a:1", "b:2"), 1)
    assert workers._tasks(config({"worker": ["a:1"]}, {"type": "worker", "index": 0})) is None


@pytest.mark.parametrize(
    "text",
    [
        "[1]",
        config({"ps": ["a:1"], "worker": ["b:1"]}, {"type": "worker", "index": 0}),
        config({"worker": ["a:1", "b:1"]}, {"type": "worker", "index": 2}),
        config({"worker": ["a:1", "b"]}, {"type": "worker", "index": 1}),
    ],
)
def test_a_wrong_tf_config_is_refused(text):
    with pytest.raises(UsageError, match="TF_CONFIG must be JSON with a cluster of host:port by"):
        workers._tasks(text)


def test_tensorflow_must_not_be_in_use_before(monkeypatch):
    tf.constant(1)
    here = f"127.0.0.1:{free_port()}"
    monkeypatch.setenv(
        "TF_CONFIG", config({"worker": [here, "b:1"]}, {"type": "worker", "index": 0})
    )
    monkeypatch.setattr(workers, "_answers", lambda _: True)
    with pytest.raises(
        UsageError, match=r"call penstock.training.join_workers\(\) first, before any other"
    ):
        workers.join_workers()
