import json
from dataclasses import dataclass

import pytest

from penstock.components.errors import DataError, UsageError
from penstock.pipelines.runs.run_note import PROPERTY
from penstock.pipelines.runs.spans import check_spans, finished_run, parse_spans


@pytest.mark.parametrize(
    ("text", "spans"),
    [
        ("5", [5]),
        ("3..5", [3, 4, 5]),
        ("1970-01-31..1970-02-02", [30, 31, 32]),
        ("5..3", "3 is before 5"),
        ("three", "takes a span, such as 5 or 2026-01-03, or FIRST..LAST; got 'three'"),
        ("3..", "FIRST..LAST; got '3..'"),
    ],
)
def test_text_of_spans(text, spans):
    if isinstance(spans, str):
        with pytest.raises(UsageError, match=spans):
            parse_spans(text)
    else:
        assert list(parse_spans(text)) == spans


def test_missing_spans_are_named(tmp_path):
    for span in (3, 5, 7):
        (tmp_path / f"{span}").mkdir()
        (tmp_path / f"{span}" / "t.csv").touch()
    check_spans(f"{tmp_path}/{{SPAN}}/t.csv", range(3, 4))
    with pytest.raises(DataError, match="lacks 4, 6 of the spans; there are 3, 5, 7"):
        check_spans(f"{tmp_path}/{{SPAN}}/t.csv", range(3, 8))
    (tmp_path / "1970-01-31.csv").touch()
    with pytest.raises(DataError, match="lacks 31 of the spans; there are 30"):
        check_spans(f"{tmp_path}/{{YYYY}}-{{MM}}-{{DD}}.csv", range(30, 32))
    with pytest.raises(UsageError, match="--spans needs the option data"):
        check_spans("t.csv", range(2))


@dataclass
class Config:
    span: int
    sizes: tuple[int, ...] = (1, 2)


def test_finished_run_has_the_same_options_and_data_and_no_error(runs):
    def run(name, state, fingerprint, error="", span=3):
        examples = runs.artifact("Examples", f"/{name}", input_fingerprint=fingerprint)
        runs.node(name, "Gen", "cached", outputs=[examples])
        runs.node(name, "Trainer", state)
        context = runs.context("pipeline_run", name)
        note = {"config": {"span": span, "sizes": [1, 2]}, "error": error}
        context.custom_properties[PROPERTY].string_value = json.dumps(note)
        runs.store.put_contexts([context])

    def found(config, fingerprint="a"):
        done = finished_run(runs.store, "hand", config, fingerprint)
        return done and done.run_id

    run("one", "done", "a")
    assert found(Config(3)) == "one"
    assert found(Config(4)) is None
    assert found(Config(3, sizes=(1,))) is None
    assert found(Config(3), "b") is None
    run("two", "failed", "b", error="node 'Trainer' failed")
    run("three", "running", "b")
    assert found(Config(3), "b") is None
