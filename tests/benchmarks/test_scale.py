import json

import pytest

from penstock.benchmarks import figures, scale

SMALL = {"imports": (2.0, 100.0), "Trainer": (3.0, 300.0), "ServingCheck": (1.0, 200.0)}
LARGE = {"imports": (2.0, 100.0), "Trainer": (5.0, 310.0), "ServingCheck": (1.0, 200.0)}


def test_sum_without_own_stages_leaves_out_what_stock_lacks():
    found = scale.stages({"9": LARGE, "10": SMALL})
    assert found[scale.SUM].seconds == [8.0, 6.0]
    assert found[scale.SUM].mib == [310.0, 300.0]
    assert found[scale.SAME].seconds == [7.0, 5.0]


def test_cost_of_a_further_row_is_taken_between_the_ends():
    found = scale.stages({"1000": SMALL, "2000": {}, "3000": LARGE})
    assert found["Trainer"].more_us == pytest.approx(1000)
    assert found["Trainer"].seconds == [3.0, None, 5.0]


def test_kept_runs_of_one_contender_leave_those_of_the_other(tmp_path, monkeypatch):
    monkeypatch.setattr(figures, "ROOT", tmp_path)
    (tmp_path / "docs/figures").mkdir(parents=True)
    figures.keep_runs("scale", {"taxi": {"stock": {"10": SMALL}, "penstock": {"10": SMALL}}})
    figures.keep_runs("scale", {"taxi": {"penstock": {"10": LARGE, "900": LARGE}}, "table": {}})
    kept = json.loads((tmp_path / "docs/figures/scale.json").read_text())["taxi"]
    assert kept["stock"]["10"]["Trainer"] == [3.0, 300.0]
    assert kept["penstock"]["10"]["Trainer"] == [5.0, 310.0]
    head, _, *lines = figures.stages("taxi")
    assert head.startswith("| | stock, 10 | penstock, 10 | penstock, 900 |")
    assert lines[1].startswith("| Trainer | 3.0 | 5.0 | 5.0 |  | 0.0 |")
    assert figures.memory()[0] == "| | 10 | 900 |"


def test_peak_memory_of_a_stage_is_its_own(tmp_path):
    stages = scale._Stages()
    stages.add("large", lambda: len(b"x" * (200 << 20)))
    stages.add("small", lambda: None)
    large, small = (stages.found[name][1] for name in ("large", "small"))
    if large is not None:  # the system lets a process reset its peak
        assert large > small + 150
