import json

import pytest

from penstock.components.evaluator.evaluation import Evaluation
from penstock.components.trainer.record import TrainingRecord
from penstock.pipelines.reporting.gather import gather
from penstock.pipelines.reporting.summary import RunSummary, show_summary, summarize

LIMIT = (
    "input-bound: 64 % of each 2.40 ms step waits for input (427,000 examples/s); input that never "
    "waits would train 2.8 times as fast; all cores are busy: pack the rows, or train on more"
)


def judged(evaluation):
    none = (None,) * 5
    return RunSummary("taxi", "run-1", (), *none, evaluation, True, None, None)


def test_what_limits_a_training_is_wrapped_below_the_other_lines(capsys):
    training = TrainingRecord((), 80, "all epochs done", None, "val_loss", 1, None, 1, 3.25, 1.5)
    show_summary(
        RunSummary(
            "taxi", "run-1", (), None, None, None, training, LIMIT, None, None, "runs/model/3", None
        )
    )
    lines = [line[12:] for line in capsys.readouterr().out.splitlines()[:4]]
    assert lines == [
        "80 steps in 3.2 s; all epochs done",
        "input-bound: 64 % of each 2.40 ms step waits for input (427,000 examples/s); input that",
        "never waits would train 2.8 times as fast; all cores are busy: pack the rows, or train",
        "on more",
    ]
    assert max(map(len, lines)) <= 88


@pytest.mark.parametrize(("rows", "is_told"), [(99, True), (100, False)])
def test_an_evaluation_of_few_rows_is_told(capsys, rows, is_told):
    metrics = {"overall": {"accuracy": 0.9, "example_count": float(rows)}}
    evaluation = Evaluation(metrics, (), "accuracy", higher_is_better=True)
    show_summary(judged(evaluation))
    line = (
        f"            only {rows} rows were evaluated: below 100 whether a threshold is reached is "
        "mostly chance; evaluate on more data before you trust it"
    )
    assert (line in capsys.readouterr().out.splitlines()) == is_told


def test_several_targets_without_thresholds_show_the_metric_that_slices_go_by(capsys):
    metrics = {"overall": {"price/auc": 0.9, "rent/auc": 0.8, "example_count": 200.0}}
    evaluation = Evaluation(metrics, (), "price/auc", higher_is_better=True)
    show_summary(judged(evaluation))
    lines = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert ["example_count", "price/auc"] in lines
    assert ["overall", "200", "0.9000"] in lines


def test_a_model_that_cannot_be_served_is_told(runs, capsys):
    blessing = runs.artifact("InfraBlessing", runs.folder / "check", blessed=0)
    runs.node("run-1", "Trainer", outputs=[runs.artifact("Model", "/model")])
    runs.node("run-1", "ServingCheck", outputs=[blessing])
    (runs.folder / "check").mkdir()
    report = {"problems": ["row 0 fails: no table", "p99 of an answer is 9.0 ms"]}
    (runs.folder / "check" / "serving_check.json").write_text(json.dumps(report))
    facts = gather(*runs.newest())
    assert facts.verdict.sentence == "The model cannot be served: row 0 fails: no table."
    show_summary(summarize(facts))
    told = "pushed      no: cannot be served: row 0 fails: no table; p99 of an answer is 9.0 ms"
    assert told in capsys.readouterr().out.splitlines()


def test_an_evaluation_that_cannot_be_read_is_named(runs, capsys):
    evaluation = runs.artifact("ModelEvaluation", runs.folder / "gone")
    runs.node("run-1", "Evaluator", outputs=[evaluation])
    show_summary(summarize(gather(*runs.newest())))
    lines = capsys.readouterr().out.splitlines()
    assert any(line.startswith("missing     the evaluation: ") for line in lines)
