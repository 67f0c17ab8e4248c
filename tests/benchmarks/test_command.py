import json
import subprocess
import sys

import pytest
from typer.testing import CliRunner

from penstock.benchmarks.command import app
from penstock.benchmarks.harness import BENCHMARKS
from penstock.components.errors import UsageError

TINY = {
    "gpu": ["--rows", 2048, "--images", 32, "--seconds", 0.1, "--only", "short"],
    "ingest": ["--rows", 200],
    "formats": ["--users", 2000, "--rows", 16384, "--images", 32, "--seconds", 0.1],
    "images": ["--images", 64, "--size", 32, "--seconds", 0.1],
    "ladder": ["--rows", 2048, "--images", 32, "--seconds", 0.1],
    "remote": ["--rows", 2048],
    "tabular": ["--rows", 2048, "--seconds", 0.1],
}
VERDICTS = {
    "ingest": 3,
    "formats": 6,
    "gpu": 2,
    "images": 6,
    "ladder": 13,
    "remote": 3,
    "tabular": 5,
}


def run(*arguments):
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def test_help_lists_the_benchmarks():
    shown = run("--help").output
    assert set(VERDICTS) == set(BENCHMARKS)
    assert all(f" {name} " in shown for name in BENCHMARKS)


def test_wrong_options_are_refused_before_anything_is_made(tmp_path):
    result = run("images", "--images", 33, "--out", tmp_path / "out")
    assert isinstance(result.exception, UsageError)
    assert str(result.exception) == "images must be at least 32 and a multiple of 32, got 33"
    assert not (tmp_path / "out").exists()


def test_an_output_below_a_file_is_refused_before_minutes_are_spent(tmp_path):
    (tmp_path / "file").touch()
    result = run("images", "--out", tmp_path / "file")
    assert str(result.exception).endswith(f"{tmp_path}/file: is a file; name another output")


@pytest.fixture
def warm(penstock, monkeypatch):
    """Runs contenders as forks of a process that has already imported TensorFlow."""

    def run_warm(script, arguments, what, python=sys.executable):
        done = penstock(*arguments, script=script)
        assert done.returncode == 0, f"{what}\n{done.stderr}"
        return done.stdout

    monkeypatch.setattr("penstock.benchmarks.harness.run_script", run_warm)


@pytest.mark.slow
@pytest.mark.parametrize("name", TINY)
def test_whole_benchmark_ends_in_verdicts(name, tmp_path, monkeypatch, warm):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    result = run(name, *TINY[name], "--rounds", 1, "--out", tmp_path / "out")
    assert result.exit_code == 0, result.exception
    outcome = json.loads((tmp_path / f"out/{name}.json").read_text())
    assert len(outcome["verdicts"]) == VERDICTS[name]
    assert all(c["per_second"] > 0 for one in outcome["comparisons"] for c in one["contenders"])
    page = (tmp_path / f"out/{name}.md").read_text()
    assert page.startswith(f"# {outcome['title']}\n")
    assert result.stdout.endswith(page)


def test_an_installed_package_has_no_bench(tmp_path):
    """A wheel has no folder `benchmarks`, so the test hides this folder."""
    script = """
import importlib.util, sys
find = importlib.util.find_spec
importlib.util.find_spec = lambda name, *package: "benchmarks" not in name and find(name) or None
from penstock.pipelines.cli.main import main
sys.argv = ["penstock", "bench", "ladder", "--rounds", "1"]
main()
"""
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=tmp_path, capture_output=True, text=True
    )
    assert done.returncode == 2, done.stderr
    assert done.stderr == "penstock: No such command 'bench'.\n"
