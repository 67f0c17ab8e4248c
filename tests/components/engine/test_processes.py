import os
import signal
import time
from collections.abc import Iterator

import psutil
import pytest

from penstock.components import activity
from penstock.components.engine import processes
from penstock.components.engine.processes import kept_processes, run_in_processes
from penstock.components.errors import DataError
from tests import open_files


def run(expressions, count=2):
    return run_in_processes(eval, expressions, count)


def test_results_of_several_processes_come_in_order(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for module in ("csv.py", "subprocess.py"):  # user modules named like standard ones
        (tmp_path / module).write_text("raise ImportError('not the right one')")
    # The first task ends only when another process has begun the second one.
    folder = str(tmp_path / "begun")
    wait = f"[time.sleep(0.01) for _ in iter(lambda: os.path.exists({folder!r}), True)]"
    first = f"[({wait}, os.getpid())[1] for os, time in [(__import__('os'), __import__('time'))]]"
    second = f"[(os.mkdir({folder!r}), os.getpid())[1] for os in [__import__('os')]]"
    (a,), (b,), *rest = run([first, second, *map(str, range(40))])
    assert len({a, b, os.getpid()}) == 3
    assert rest == list(range(40))


def test_files_that_a_module_never_closes_are_as_plain_python_leaves_them(tmp_path, monkeypatch):
    open_files.write_module(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    expected = open_files.left_by_plain_python(tmp_path)
    monkeypatch.chdir(tmp_path)
    list(run(["__import__('leaves_open').log()"]))
    assert open_files.left_in(tmp_path) == expected


def test_worker_processes_see_no_gpu(monkeypatch):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0")
    assert list(run(["__import__('os').environ['CUDA_VISIBLE_DEVICES']"])) == ["-1"]


def test_tasks_are_drawn_as_processes_become_free(tmp_path):
    drawn = []
    go = tmp_path / "go"

    def tasks() -> Iterator[str]:
        for number in range(10):
            drawn.append(number)
            # All tasks except the first wait for the file `go`.
            ready = f"__import__('os').path.exists({str(go)!r}) or not {number}"
            waits = f"[__import__('time').sleep(0.01) for _ in iter(lambda: {ready}, True)]"
            yield f"({waits}, {number})[1]"

    results = run(tasks())
    assert next(results) == 0
    assert len(drawn) <= 4
    go.touch()
    assert list(results) == list(range(1, 10))


def test_rows_done_in_other_processes_are_counted():
    counted = []
    task = "__import__('penstock.components.activity').components.activity.advance(7)"
    with activity.counting_by(counted.append):
        list(run([task] * 5))
    assert sum(counted) == 35


def test_first_failed_task_in_order_is_reported():
    tasks = ["__import__('time').sleep(0.3) or open('/none')", "open('/none2')", "1"]
    results = run(tasks)
    with pytest.raises(FileNotFoundError) as error:
        next(results)
    assert error.value.filename == "/none"


@pytest.mark.parametrize(
    ("expression", "text"),
    [
        (
            "__import__('signal').raise_signal(9)",
            "was killed by SIGKILL; the system kills one where memory runs out: use fewer workers",
        ),
        ("__import__('os')._exit(3)", "ended with 3; it may have written why above; with one"),
    ],
)
def test_lost_process_ends_the_work_at_once_in_one_line(expression, text):
    began = time.monotonic()
    with pytest.raises(DataError) as error:
        list(run(["__import__('time').sleep(1000)", expression]))
    assert str(error.value).startswith("worker process ")
    assert text in str(error.value)
    assert time.monotonic() - began < 500  # nothing waits for the task that sleeps


PID = "__import__('os').getpid()"


@pytest.fixture(autouse=True)
def _kept_for_long(monkeypatch):
    monkeypatch.setattr(processes, "_SECONDS_KEPT", 600)


def test_kept_processes_do_the_next_work_by_the_new_module_paths(tmp_path, monkeypatch):
    (tmp_path / "written_later.py").write_text(
        "def work(task): return task, __import__('os').getpid()"
    )
    with kept_processes():
        first = set(run([PID] * 2))
        with kept_processes():  # nested, so without effect
            assert set(run([PID] * 2)) == first
        monkeypatch.syspath_prepend(tmp_path)
        work = __import__("written_later").work
        assert {pid for _, pid in run_in_processes(work, "12", 2)} <= first
        assert set(run([PID] * 2)) <= first
    assert not any(psutil.pid_exists(pid) for pid in first)
    assert not first & set(run([PID]))


def test_process_that_was_lost_between_two_works_is_replaced():
    with kept_processes():
        [pid] = run([PID], 1)
        os.kill(pid, signal.SIGKILL)
        while psutil.Process(pid).status() != psutil.STATUS_ZOMBIE:
            time.sleep(0.01)
        [other] = run([PID], 1)
        assert other != pid


def test_kept_process_ends_when_no_work_comes(monkeypatch):
    monkeypatch.setattr(processes, "_SECONDS_KEPT", 0.1)
    with kept_processes():
        [pid] = run([PID], 1)
        while psutil.pid_exists(pid):
            time.sleep(0.01)
        [other] = run([PID], 1)
        assert other != pid


def test_lost_process_ends_the_kept_ones_of_its_work():
    with kept_processes():
        first = set(run([PID] * 2))
        with pytest.raises(DataError, match="SIGKILL"):
            list(run(["__import__('time').sleep(1000)", "__import__('signal').raise_signal(9)"]))
        assert not any(psutil.pid_exists(pid) for pid in first)
        assert not first & set(run([PID] * 2))


@pytest.mark.parametrize(
    ("error", "text"),
    [
        ("EOFError('of a task')", "EOFError: of a task"),
        ("type('Own', (OSError,), {})('no class to pickle')", "Own: no class to pickle"),
    ],
)
def test_bug_in_another_process_is_raised_with_its_traceback(error, text):
    with pytest.raises(RuntimeError) as caught:
        list(run([f"(_ for _ in ()).throw({error})"]))
    assert str(caught.value).startswith("Traceback (most recent call last):")
    assert text in str(caught.value)
