import json

import pytest

from penstock.benchmarks.format_messages import write_penstock
from penstock.benchmarks.formats import FormatsOptions
from penstock.benchmarks.gpu import GpuOptions
from penstock.benchmarks.harness import run_script
from penstock.benchmarks.image_training import ImageTrainingOptions
from penstock.benchmarks.ingest import CsvIngestOptions
from penstock.benchmarks.ladder import LadderOptions, run
from penstock.benchmarks.questions import first_line, job_arguments, need, prepare
from penstock.benchmarks.verdict import VerdictOptions
from penstock.components.errors import DataError, UsageError


def test_a_missing_extra_is_one_line():
    need("json", "PIL")
    with pytest.raises(UsageError) as caught:
        need("json", "penstock_no_such", "penstock_nor_this")
    assert str(caught.value) == (
        "this question needs penstock_no_such, penstock_nor_this: pip install 'penstock-tfx[bench]'"
    )


CHILD = """
import atexit
from pathlib import Path
from penstock.benchmarks.ladder import LadderOptions
from penstock.benchmarks.questions import answer_child

atexit.register(print, "the end that can hang")
answer_child(
    LadderOptions,
    lambda options: Path(__file__).with_suffix(".txt").write_text(repr(options)),
    lambda name, job: {"name": name, **job},
)
"""


@pytest.fixture
def child(tmp_path):
    path = tmp_path / "child.py"
    path.write_text(CHILD)
    return path


def test_a_child_is_told_its_contender_and_its_job_and_ends_at_once(child):
    said = run_script(str(child), ["--contender", "fast", *job_arguments(rows=3)], "fast")
    assert json.loads(said) == {"name": "fast", "rows": 3}


def test_a_child_prepares_by_the_options(child):
    options = LadderOptions(rows=2048, images=0)
    prepare(str(child), options)
    assert child.with_suffix(".txt").read_text() == repr(options)


def test_what_a_child_refuses_is_one_line(child):
    child.write_text(
        "from penstock.benchmarks import ladder, questions\n"
        "questions.answer_child(ladder.LadderOptions, ladder.prepare, None)\n"
    )
    with pytest.raises(DataError) as caught:
        prepare(str(child), LadderOptions(rows=0, images=0, examples="nosuch"))
    assert str(caught.value) == ("making the data failed: nosuch: no such folder of shards")


def test_own_examples_are_looked_for_before_any_data_is_made():
    with pytest.raises(DataError) as caught:
        run(LadderOptions(examples="nosuch"))
    assert str(caught.value) == "nosuch: no such folder of shards"


def test_a_note_is_the_first_line_of_the_docstring_without_marks():
    assert first_line(write_penstock) == (
        "Whole batches encoded by Penstock; whole batches read by tf.io.parse_example."
    )


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: FormatsOptions(rows=1000), "rows must be a multiple of 16384, got 1000"),
        (lambda: FormatsOptions(images=33), "images must be a multiple of 32, got 33"),
        (
            lambda: FormatsOptions(users=-1),
            "users must be at least 0, rounds at least 1 and seconds more than 0, got -1, 3 and 2",
        ),
        (
            lambda: FormatsOptions(rows=0, images=0, users=0),
            "nothing to measure: rows, images and users are 0",
        ),
        (
            lambda: LadderOptions(rows=0, images=0),
            "nothing to measure: rows and images are 0, and there are no examples",
        ),
        (lambda: ImageTrainingOptions(images=31), "images must be a multiple of 32, got 31"),
        (
            lambda: ImageTrainingOptions(images=32, epochs=1),
            "1 epoch of 32 images are 1 step; expected at least 4, for the first is not "
            "measured: give more epochs",
        ),
        (
            lambda: ImageTrainingOptions(size=8),
            "filters, epochs and rounds must be at least 1 and size at least 16, "
            "got 16, 5, 3 and 8",
        ),
        (lambda: GpuOptions(rows=1000), "rows must be a multiple of 1024, got 1000"),
        (
            lambda: GpuOptions(only="tabels"),
            "no comparison has 'tabels' in its title: there are Inputs: a table, short steps; "
            "Inputs: a table, long steps; Inputs: images, short steps; Inputs: images, long "
            "steps; Options of the step: a table, short steps; Options of the step: images, long "
            "steps; Options of the input: a table, short steps",
        ),
        (lambda: VerdictOptions(seconds=0), "rounds must be at least 1, and seconds more than 0"),
        (
            lambda: CsvIngestOptions(rounds=0),
            "rows and rounds must be at least 1, many_rows and memory_rows at least 0, "
            "got 50000, 0, 500000 and 0",
        ),
    ],
)
def test_options_that_make_no_sense(make, said):
    with pytest.raises(UsageError) as caught:
        make()
    assert str(caught.value) == said
