import json
import sys

import pytest

from penstock.benchmarks.format_messages import write_penstock
from penstock.benchmarks.formats import FormatsOptions
from penstock.benchmarks.image_training import ImageTrainingOptions
from penstock.benchmarks.ingest import CsvIngestOptions
from penstock.benchmarks.ladder import LadderOptions
from penstock.benchmarks.questions import answer_child, first_line, job_arguments, need
from penstock.components.errors import UsageError


def test_a_missing_extra_is_one_line():
    need("json", "PIL")
    with pytest.raises(UsageError) as caught:
        need("json", "penstock_no_such", "penstock_nor_this")
    assert str(caught.value) == (
        "this question needs penstock_no_such, penstock_nor_this: pip install 'penstock[bench]'"
    )


def test_a_child_is_told_its_contender_and_its_job(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["x.py", "--contender", "fast", *job_arguments(rows=3)])
    answer_child(LadderOptions, lambda _: None, lambda name, job: {"name": name, **job})
    assert json.loads(capsys.readouterr().out) == {"name": "fast", "rows": 3}


def test_a_child_prepares_by_the_options(monkeypatch):
    prepared = []
    monkeypatch.setattr(sys, "argv", ["x.py", "--prepare", '{"rows": 2048, "images": 0}'])
    answer_child(LadderOptions, prepared.append, lambda *_: {})
    assert prepared == [LadderOptions(rows=2048, images=0)]


def test_a_note_is_the_first_line_of_the_docstring_without_marks():
    assert first_line(write_penstock) == (
        "Whole batches encoded by Penstock; whole batches read by tf.io.parse_example."
    )


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: FormatsOptions(rows=1000), "rows must be a multiple of 1024, got 1000"),
        (lambda: FormatsOptions(images=33), "images must be a multiple of 32, got 33"),
        (
            lambda: FormatsOptions(users=-1),
            "users must be at least 0, rounds at least 1 and seconds more than 0, got -1, 3 and 2",
        ),
        (lambda: ImageTrainingOptions(images=31), "images must be a multiple of 32, got 31"),
        (
            lambda: ImageTrainingOptions(size=8),
            "filters, epochs and rounds must be at least 1 and size at least 16, "
            "got 16, 5, 3 and 8",
        ),
        (
            lambda: CsvIngestOptions(rounds=0),
            "rows, slow_rows and rounds must be at least 1 and memory_rows at least 0, "
            "got 500000, 50000, 0 and 0",
        ),
    ],
)
def test_options_that_make_no_sense(make, said):
    with pytest.raises(UsageError) as caught:
        make()
    assert str(caught.value) == said
