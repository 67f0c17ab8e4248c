import json
from pathlib import Path

import pytest

from penstock.benchmarks import figures
from penstock.components.errors import DataError


@pytest.mark.parametrize("name", figures.DOCUMENTS)
def test_a_document_has_the_tables_of_the_figures(name, monkeypatch):
    monkeypatch.setattr(figures, "ROOT", Path(__file__).parents[2])  # the image has them apart
    text = (figures.ROOT / name).read_text()
    assert figures.rendered(text) == text, "write them: python benchmarks/figures.py"


def test_a_table_is_written_where_it_is_marked(monkeypatch):
    monkeypatch.setitem(figures.TABLES, "speed", lambda: ["| a |", "|---|"])
    text = "before\n<!-- figures: speed -->\nold\n<!-- end -->\nafter\n"
    assert figures.rendered(text) == (
        "before\n<!-- figures: speed -->\n\n| a |\n|---|\n\n<!-- end -->\nafter\n"
    )


def test_an_outcome_is_kept_without_its_curves_to_four_digits(tmp_path, monkeypatch):
    monkeypatch.setattr(figures, "ROOT", tmp_path)
    (tmp_path / "docs/figures").mkdir(parents=True)
    outcome = dict.fromkeys(figures.KEPT, 1.23456) | {"tracks": [1, 2], "question": "ladder"}
    (tmp_path / "ladder.json").write_text(json.dumps(outcome))
    figures.keep(tmp_path / "ladder.json")
    assert figures.kept("ladder") == dict.fromkeys(figures.KEPT, 1.235) | {"question": "ladder"}


def test_a_question_that_was_not_asked_is_one_line(tmp_path, monkeypatch):
    monkeypatch.setattr(figures, "ROOT", tmp_path)
    with pytest.raises(DataError) as caught:
        figures.kept("ladder")
    assert str(caught.value) == (
        f"{tmp_path}/docs/figures/ladder.json: is not there; run penstock bench ladder, then this "
        "with it"
    )
