import pytest

from penstock.components.example_gen import executor
from penstock.components.example_gen.executor import Executor


@pytest.mark.parametrize(
    ("mode", "workers", "scanning"),
    [("multi_processing", 0, 7), ("in_memory", 3, None)],
)
def test_as_many_processes_scan_as_beam_would_start(monkeypatch, mode, workers, scanning):
    monkeypatch.setattr(executor, "cpu_count", lambda: 7)
    monkeypatch.setattr(executor, "processes", lambda count: count)
    monkeypatch.setattr(executor, "here", None)
    options = ["--runner=FnApiRunner", f"--direct_running_mode={mode}"]
    context = Executor.Context([*options, f"--direct_num_workers={workers}"])
    assert Executor(context)._spread("out") == scanning
