import base64
import json

import pytest

from penstock.pipelines.reporting.closer_facts import Group, Importance, gather_closer
from penstock.pipelines.reporting.histograms import Bar

PIXEL = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)


@pytest.fixture
def look(tmp_path, runs):
    def write(task, wrong, *, labels=None, sample=None):
        record = runs.example(town=b"Ulm", area=1.5, **{"image__encoded": PIXEL})
        rows = [
            {"label": a, "prediction": b, "record": base64.b64encode(record).decode()}
            for a, b in wrong
        ]
        target = {
            "task": task,
            "labels": labels,
            "sample": sample,
            "most_wrong": rows,
            "importance": {"area": [0.5, 0.1], "id": [0, 0], "town": [0.75, 0.2]},
            "against": {"area": [{"name": [1, 2.5], "rows": 3, "label": 1, "prediction": 0.5}]},
            "correlations": {"y_xf": {"y_xf": 1.0}},
        }
        text = json.dumps({"sampled": 9, "targets": {"y_xf": target}})
        (tmp_path / "error_analysis.json").write_text(text)
        [facts] = gather_closer(str(tmp_path), {"y_xf": ("no", "yes", "maybe")[:2]})
        return facts

    return write


def test_classes_have_their_words_and_images_are_shown(look):
    facts = look("binary", [(1, [0.125])], labels={"0": 3, "1": 4})
    assert facts.balance == [Bar("no", 3), Bar("yes", 4)]
    [row] = facts.wrong
    assert (row.label, row.prediction) == ("yes", "no, 88 %")
    assert row.image.startswith("data:image/png;base64,")
    assert list(row.features.items()) == [("town", "Ulm"), ("area", "1.5")]
    assert facts.importance == [
        Importance("town", 0.75, 1.96 * 0.2),
        Importance("area", 0.5, 1.96 * 0.1),
    ]
    assert facts.unused == ["id"]
    assert facts.against == {"area": [Group("1 to 2.500", False, 3, 1, 0.5)]}


def test_a_class_without_words_is_a_number(look):
    assert look("classes", [(0, [0.25, 0.125, 0.625])]).wrong[0].prediction == "2, 62 %"


def test_a_regression_has_residuals(look):
    facts = look("regression", [(4.0, [1.5])], sample=[[4, 2], [1.5, 2]])
    assert (facts.wrong[0].label, facts.wrong[0].prediction) == ("4", "1.500 (-2.500)")
    assert facts.residuals == [-2.5, 0]


def test_of_tfma_alone_there_is_none(tmp_path):
    assert gather_closer(str(tmp_path), {}) == []
