from pathlib import Path

from penstock.pipelines.reporting.write import card_file


def test_a_model_card_is_named_after_its_report():
    names = {
        "report.html": "model_card.json",
        "taxi-report.html": "taxi-model_card.json",
        "page.html": "page-model_card.json",
    }
    assert {name: card_file(Path(name), ".json").name for name in names} == names
