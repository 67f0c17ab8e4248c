"""The ledger of a run: read from its artifacts, and as lines of text."""

import json

from penstock.pipelines.runs.ledger import LedgerEntry, ledger_lines, ledger_of


def test_a_ledger_has_a_line_for_each_split():
    ledger = (
        LedgerEntry("train", "ExampleGen", 1963),
        LedgerEntry("train", "StatisticsGen", 196, "a sample of 0.1"),
        LedgerEntry("train", "Transform", 1963),
        LedgerEntry("train", "Pack", 1963),
        LedgerEntry("eval", "ExampleGen", 1037),
        LedgerEntry("eval", "Transform", None, "not counted: it wrote no rows"),
        LedgerEntry("eval", "Evaluator", 1037),
    )
    assert ledger_lines(ledger) == [
        "train 1,963: ExampleGen, StatisticsGen 196 (a sample of 0.1), Transform 1,963 = Pack",
        "eval 1,037: ExampleGen, Transform (not counted: it wrote no rows) = Evaluator",
    ]


def test_a_run_without_stated_rows_has_no_ledger(runs):
    runs.node("1", "ExampleGen", outputs=[runs.artifact("Examples", "x")])
    assert ledger_of(runs.newest()[0]) == ()


def test_the_ledger_of_a_run_is_read_from_its_artifacts(runs):
    def stated(**rows):
        return json.dumps({"read": {}, "written": rows, "reasons": {}})

    examples = runs.artifact("Examples", "x", penstock_rows=stated(train=3, eval=2))
    runs.node("1", "ExampleGen", outputs=[examples])
    packed = runs.artifact("Examples", "y", penstock_rows=stated(train=3))
    runs.node("1", "Pack", inputs=[examples], outputs=[packed])
    assert ledger_of(runs.newest()[0]) == (
        LedgerEntry("train", "ExampleGen", 3),
        LedgerEntry("train", "Pack", 3),
        LedgerEntry("eval", "ExampleGen", 2),
    )
