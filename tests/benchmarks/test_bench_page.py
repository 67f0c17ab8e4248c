import json
import re

import pytest

from penstock.benchmarks.claims import Claim, judge
from penstock.benchmarks.outcome import (
    Comparison,
    Contender,
    Distribution,
    FactTable,
    Outcome,
    Track,
    times,
)
from penstock.benchmarks.page import gaussian, render

EVIL = "<script>alert(1)</script>"


@pytest.fixture
def outcome():
    slow, fast = Contender("slow", 10.0, 100.0, 50.0), Contender("fast", 400.0, 2.5, 60.0, EVIL)
    claim = Claim("Four times as fast", "someone", 4.0)
    return Outcome(
        question="made",
        title="Is it fast?",
        setting=["on made rows"],
        comparisons=[Comparison("Reading", "rows", [slow, fast])],
        verdicts=[judge(claim, 40.0, "rows/s, fast to slow")],
        facts=[FactTable("Sizes", ("Format", "MiB"), [("plain", 12.0)])],
        tracks=[
            Track("fast", "memory, GiB", [0.0, 1.0], [1.0, 2.0]),
            Track("slow", "CPU, cores", [0.0, 1.0], [1.0, 2.0], 2.0),
            Track("gone", "CPU, cores", [], []),
        ],
        distributions=[
            Distribution("slow", "batches", [8.0, 9.0, 10.0]),
            Distribution("fast", "batches", [1.0, 1.0, 2.0]),
        ],
        machine={"CPU": "one", "cores": "2"},
    )


def test_the_verdict_comes_first_with_its_figures(outcome):
    html = render(outcome)
    assert html.index("Four times as fast") < html.index('id="c1"') < html.index('id="machine"')
    words = re.sub(r"<[^>]+>", " ", html).split()
    start = words.index("Four") - 5
    assert words[start] == "holds"
    assert words[start + 1 : start + 5 : 2] == ["40", "4.0"]


def test_the_page_fetches_nothing_and_escapes_what_it_shows(outcome):
    html = render(outcome)
    assert EVIL not in html
    assert "&lt;script&gt;" in html
    assert re.findall(r'(?:src|href)="(?!#|data:)[^"]*"', html) == []
    ids = re.findall(r'\bid="([^"]+)"', html)
    assert len(ids) == len(set(ids))
    assert {href for href in re.findall(r'href="#([^"]+)"', html)} <= set(ids)


def test_tracks_of_one_kind_stand_together_and_empty_ones_are_left_out(outcome):
    captions = re.findall(r"<figcaption><b>([^<]+)</b>", render(outcome))
    assert captions == ["slow: CPU, cores", "fast: memory, GiB"]


def test_histograms_of_one_kind_have_one_scale(outcome):
    slow, fast = re.findall(r'class="spark".*?<path d="([^"]*)"', render(outcome), re.DOTALL)
    # From 0 to 9.98 ms in 32 bins: the slow one's begin in bin 25, the fast one's in bin 3.
    assert float(slow[1:].split()[0]) == pytest.approx(25 * 100 / 32, abs=0.1)
    assert float(fast[1:].split()[0]) == pytest.approx(3 * 100 / 32, abs=0.1)


def test_json_has_it_all(outcome):
    read = json.loads(outcome.to_json())
    assert read["verdicts"][0]["outcome"] == "holds"
    assert read["comparisons"][0]["contenders"][1]["per_second"] == 400.0
    assert read["tracks"][1]["limit"] == 2.0


def test_a_gaussian_keeps_a_constant_and_spreads_a_peak():
    assert gaussian([0, 1, 2], [3, 3, 3], sigma=1.0) == pytest.approx([3, 3, 3])
    left, peak, right = gaussian([0, 1, 2], [0, 1, 0], sigma=1.0)
    assert peak == pytest.approx(1 / (1 + 2 * 0.60653), abs=1e-4)
    assert left == right < peak


def test_a_ratio_has_as_many_digits_as_say_something():
    shown = [times(ratio) for ratio in (1234.5, 35.2, 19.94, 1.0, 0.95, 0.034)]
    assert shown == ["1,234", "35", "19.9", "1.0", "0.95", "0.034"]
