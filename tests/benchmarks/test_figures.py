import json
import subprocess
import sys
from pathlib import Path

import pytest

from penstock.benchmarks import figures


@pytest.mark.parametrize("name", figures.DOCUMENTS)
def test_a_document_has_the_tables_of_the_figures(name, monkeypatch):
    monkeypatch.setattr(figures, "ROOT", Path(__file__).parents[2])  # another in the test image
    text = (figures.ROOT / name).read_text()
    assert figures.rendered(text) == text, "write them: python benchmarks/figures.py"


def test_a_table_is_written_where_it_is_marked(monkeypatch):
    monkeypatch.setitem(figures.TABLES, "speed", lambda: ["| a |", "|---|"])
    text = "before\n<!-- figures: speed -->\nold\n<!-- end -->\nafter\n"
    assert figures.rendered(text) == (
        "before\n<!-- figures: speed -->\n\n| a |\n|---|\n\n<!-- end -->\nafter\n"
    )


def test_an_outcome_is_kept_to_four_digits(tmp_path, monkeypatch):
    monkeypatch.setattr(figures, "ROOT", tmp_path)
    (tmp_path / "docs/figures").mkdir(parents=True)
    (tmp_path / "ladder.json").write_text(json.dumps({"question": "ladder", "seconds": [1.23456]}))
    figures.keep(tmp_path / "ladder.json")
    assert figures.kept("ladder") == {"question": "ladder", "seconds": [1.235]}


SMALL = {"imports": (2.0, 100.0), "Trainer": (3.0, 300.0), "ServingCheck": (1.0, 200.0)}
LARGE = {"imports": (2.0, 100.0), "Trainer": (5.0, 310.0), "ServingCheck": (1.0, 200.0)}


def test_kept_runs_of_one_contender_leave_those_of_the_other(tmp_path, monkeypatch):
    monkeypatch.setattr(figures, "ROOT", tmp_path)
    (tmp_path / "docs/figures").mkdir(parents=True)
    figures.keep_runs({"stock": {"10": SMALL}, "penstock": {"10": SMALL}})
    figures.keep_runs({"penstock": {"10": LARGE, "900": LARGE}})
    kept = figures.kept("scale")
    assert kept["stock"]["10"]["Trainer"] == [3.0, 300.0]
    head, _, _, trainer, check, total, shared = figures.stages(kept)
    # The contender `stock` was run with only one size, so it has no column for the cost of one more
    # row.
    assert (
        head == "| stage | stock, 10 | penstock, 10 | penstock, 900 | us per added row, penstock |"
    )
    assert trainer == "| Trainer | 3.0 | 5.0 | 5.0 | 0.0 |"
    assert check == "| ServingCheck | 1.0 | 1.0 | 1.0 | 0.0 |"
    assert total == "| sum | 6.0 | 8.0 | 8.0 | 0.0 |"
    assert shared == "| sum of the stages that stock has too | 5.0 | 7.0 | 7.0 | 0.0 |"


def test_peaks_of_memory_have_no_sum():
    lines = figures.memory({"penstock": {"1000": SMALL, "2000": LARGE}})
    assert lines[0] == "| stage | 1,000 | 2,000 |"
    assert lines[2:] == [
        "| imports | 100 | 100 |", "| Trainer | 300 | 310 |", "| ServingCheck | 200 | 200 |"
    ]  # fmt: skip


def test_peak_memory_of_a_stage_is_its_own():
    """Runs in a new process, because reused memory of this one would hide the rise of the peak."""
    code = """
from penstock.benchmarks import scale
stages = scale._Stages()
stages.add("large", lambda: len(b"x" * (200 << 20)))
stages.add("small", lambda: None)
large, small = (stages.found[name][1] for name in ("large", "small"))
# None if the system does not let a process reset its peak.
assert large is None or large > small + 150, (large, small)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
