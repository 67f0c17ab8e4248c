import json
import subprocess
import sys

import pytest

from penstock.benchmarks import formats, gpu, harness, images, ingest, ladder
from penstock.benchmarks.claims import Claim, outcome
from penstock.benchmarks.harness import Check, Group, Measured, contender, markdown, verdict
from penstock.components.errors import DataError, UsageError

CLAIM = Claim("Three times", wanted=3.0, partly=1.2)
SLOW = Measured(1000, wall_seconds=2.0, cpu_seconds=4.0, peak_mib=10, extra={"bytes": 50.0})
FAST = Measured(1000, wall_seconds=0.5, cpu_seconds=0.4, peak_mib=20, extra={"bytes": 20.0})
GROUP = Group("Reading", "rows", {"slow": None, "slower": None, "fast": None})


def found():
    return [contender("slow", SLOW), contender("slower", SLOW), contender("fast", FAST, "a note")]


@pytest.mark.parametrize(
    ("ratio", "said"), [(3.0, "holds"), (2.99, "holds in part"), (1.19, "does not hold")]
)
def test_claim_holds_in_part_or_does_not(ratio, said):
    assert outcome(CLAIM, ratio) == said


@pytest.mark.parametrize(
    ("by", "ratio", "how"),
    [
        ("cpu_us", 10.0, "CPU time of `slow` divided by CPU time of `fast` (Reading)"),
        ("per_second", 4.0, "rows/s of `fast` divided by rows/s of `slow` (Reading)"),
        ("bytes", 2.5, "bytes of `slow` divided by bytes of `fast` (Reading)"),
    ],
)
def test_contenders_are_compared_by_rate_cpu_time_and_extra_figures(by, ratio, how):
    judged = verdict(GROUP, Check(CLAIM, "fast", ["slow"], by), found())
    assert (judged["measured"], judged["how"]) == (ratio, how)


def test_claim_against_several_is_held_against_the_best_that_ran():
    check = Check(CLAIM, "fast", ["slow", "slower", "not there"])
    assert verdict(GROUP, check, found())["how"] == (
        "CPU time of `slow` (the best of them) divided by CPU time of `fast` (Reading)"
    )


def test_page_has_verdicts_before_contenders():
    judged = verdict(GROUP, Check(CLAIM, "fast", ["slow"]), found())
    one = {"title": "Reading", "unit": "rows", "contenders": found()}
    page = markdown(
        {"title": "Fast?", "setting": ["on rows"], "machine": {"cores": "2"}, "verdicts": [judged],
         "comparisons": [one]}
    )  # fmt: skip
    lines = page.splitlines()
    assert lines[:4] == ["# Fast?", "", "- on rows", "- cores 2"]
    assert f"| holds | 10.0 | 3.0 | Three times | {judged['how']} |" in lines
    assert lines[-1] == "| fast: a note | 2,000 | 400 | 4.0 | 10.0 | 20 | 20 |"


def test_median_is_of_each_figure():
    runs = [
        Measured(10, 1.0, 5.0, 7.0, {"ms": 3.0, "says": "a"}),
        Measured(10, 3.0, 4.0, 9.0, {"ms": 1.0, "says": "b"}),
        Measured(10, 2.0, 6.0, 8.0, {"ms": 2.0, "says": "c"}),
    ]
    assert harness.median(runs) == Measured(10, 2.0, 5.0, 8.0, {"ms": 2.0, "says": "c"})


def test_contender_that_fails_is_one_line(tmp_path):
    script = tmp_path / "child.py"
    script.write_text("raise SystemExit('no such shard')")
    with pytest.raises(DataError, match="it failed: no such shard"):
        harness.run_script(str(script), [], "it")


def test_contenders_run_in_turn_in_every_round(monkeypatch):
    asked = []

    def run_script(_, arguments, what, python=""):
        asked.append(what)
        return "noise\n" + json.dumps(
            {"rows": 1, "wall_seconds": 1, "cpu_seconds": 1, "peak_mib": 1}
        )

    monkeypatch.setattr(harness, "run_script", run_script)
    harness.run("ladder", ladder.Options(images=0, rounds=2))
    assert asked[:4] == ["making the data", "naive", "prefetch", "interleave"]
    assert len(asked) == 1 + 2 * 9
    assert asked[10] == "naive"


def test_peak_of_a_process_is_not_that_of_its_parent():
    held = bytearray(300 << 20)
    code = "from penstock.benchmarks.harness import own_peak_mib as peak; print(peak())"
    child = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True)
    assert float(child.stdout) < len(held) >> 20


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: formats.Options(rows=1000), "rows .* a multiple of 16384, got 1000"),
        (lambda: formats.Options(rows=0, images=0, users=0), "nothing to measure"),
        (lambda: images.Options(size=8), "size must be at least 16, got 8"),
        (lambda: gpu.Options(only="tabels"), "no comparison has 'tabels' in its title"),
        (lambda: ingest.Options(rounds=0), "rounds must be at least 1, got 0"),
    ],
)
def test_options_that_make_no_sense(make, said):
    with pytest.raises(UsageError, match=said):
        make()
