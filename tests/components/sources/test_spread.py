"""Scans by several processes of this machine: the same as one's, and what stops them is told."""

import os

import pytest

from penstock.components.errors import DataError
from penstock.components.files import cells
from penstock.components.sources import spread
from penstock.components.sources.open import open_source
from penstock.components.sources.spread import processes


@pytest.fixture(autouse=True)
def spread_all(monkeypatch):
    monkeypatch.setattr(spread, "_WORTH_PROCESSES_BYTES", 0)


def test_two_processes_scan_what_one_does(tmp_path, monkeypatch):
    for at in range(3):
        rows = (f'{i},"text, {i}\n{i}",{i / 4}\n' for i in range(at, 900, 3))
        (tmp_path / f"{at}.csv").write_text("id,text,number\n" + "".join(rows))
    here = open_source(str(tmp_path / "*.csv"))
    monkeypatch.setattr(cells, "_RANGE_CELLS", 1)
    there = open_source(str(tmp_path / "*.csv"), None, processes(2))
    assert (there.fingerprint, there.columns) == (here.fingerprint, here.columns)
    assert there.cut(5) == here.cut(5)


def test_results_come_in_order_from_this_process_and_others(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for module in ("csv.py", "subprocess.py"):  # of the user, who stands beside them
        (tmp_path / module).write_text("raise ImportError('not the right one')")
    found = processes(2)(os.path.getsize, [__file__, str(tmp_path)] * 40, 1)
    assert found == [os.path.getsize(__file__), os.path.getsize(tmp_path)] * 40
    # The first ends when the second has begun, which another process does meanwhile.
    folder = str(tmp_path / "begun")
    wait = f"[time.sleep(0.01) for _ in iter(lambda: os.path.exists({folder!r}), True)]"
    first = f"[({wait}, os.getpid())[1] for os, time in [(__import__('os'), __import__('time'))]]"
    second = f"[(os.mkdir({folder!r}), os.getpid())[1] for os in [__import__('os')]]"
    (a,), (b,) = processes(2)(eval, [first, second], 1)
    assert a != b
    assert os.getpid() in (a, b)


def test_the_first_of_what_stops_tasks_is_told_as_in_one_process(tmp_path):
    for at in range(5):
        (tmp_path / f"{at}.parquet").write_bytes(b"PAR1" + bytes(20))
    with pytest.raises(DataError) as error:
        open_source(str(tmp_path / "*.parquet"), None, processes(2))
    assert str(error.value) == (
        f"{tmp_path}/0.parquet: truncated: 24 bytes that do not end as Parquet does; copy it again"
    )
    with pytest.raises(FileNotFoundError, match="none"):
        processes(2)(os.stat, [__file__, "none", __file__, "none2"], 1)


def elsewhere(expression):
    """Tasks that do it in the other process, and wait a moment in this one."""
    wait = "__import__('time').sleep(0.1)"
    return [f"{wait} if __import__('os').getpid() == {os.getpid()} else {expression}"] * 600


@pytest.mark.parametrize(
    ("expression", "text"),
    [
        (
            "__import__('signal').raise_signal(9)",
            "a process that scans was lost; the system kills one where memory runs out: use fewer "
            "workers, or give more memory",
        ),
        (
            "__import__('os')._exit(3)",
            "a process that scans was lost, with exit code 3; it may have written why, and one "
            "worker scans in this process",
        ),
    ],
)
def test_a_process_that_is_lost_ends_the_scan_with_a_line(expression, text):
    with pytest.raises(DataError) as error:
        processes(2)(eval, elsewhere(expression), 1)
    assert str(error.value) == text


@pytest.mark.parametrize(
    ("error", "text"),
    [
        ("EOFError('of a task')", "EOFError: of a task"),
        ("type('Own', (OSError,), {})('no class to pickle')", "Own: no class to pickle"),
    ],
)
def test_a_bug_in_another_process_is_told_with_its_traceback(error, text):
    with pytest.raises(RuntimeError) as caught:
        processes(2)(eval, elsewhere(f"(_ for _ in ()).throw({error})"), 1)
    assert str(caught.value).startswith("Traceback (most recent call last):")
    assert text in str(caught.value)
