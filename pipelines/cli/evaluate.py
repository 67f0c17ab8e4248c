"""`penstock evaluate`: judges predictions in a table as the Evaluator judges a model."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from penstock.components.errors import DataError, UsageError
from penstock.pipelines.cli.predict import require_place
from penstock.pipelines.config.overrides import name_and_value
from penstock.pipelines.terminal.noise import noise_to_log

if TYPE_CHECKING:
    from penstock.components.evaluator.evaluation import Evaluation

_MOST_SLICES = 5


def command(
    predictions: Annotated[
        str, typer.Argument(help="Parquet, CSV or another table, with a prediction in each row.")
    ],
    out: Annotated[Path, typer.Option(help="Folder to make.")],
    label: Annotated[str, typer.Option(help="Column of the labels.")] = "label",
    prediction: Annotated[
        str,
        typer.Option(
            help="Column of the predictions: a number, or a list or struct of probabilities."
        ),
    ] = "prediction",
    weight: Annotated[str | None, typer.Option(help="Column of the weights of rows.")] = None,
    slices: Annotated[
        list[str] | None,
        typer.Option("--slice", metavar="COLUMN", help="Column to slice by; repeatable."),
    ] = None,
    threshold: Annotated[
        list[str] | None,
        typer.Option(
            metavar="METRIC=BOUND", help="Least value of a metric, or largest error; repeatable."
        ),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the evaluation.")] = False,
) -> None:
    """Judge the predictions of any trainer's model: metrics, intervals, slices and thresholds.

    The folder of --out gets evaluation.json, a page evaluation.html and TFMA's files. The exit code
    is 1 if a threshold is missed.

    Example: penstock evaluate predictions.parquet --label y --threshold AUC=0.8 --out evaluation
    """
    require_place(predictions)
    bounds = dict(map(_bound, threshold or ()))
    with noise_to_log():
        # TFMA takes seconds to import, so wrong arguments are reported before that.
        from penstock.pipelines.prediction.evaluate import evaluate

        found = evaluate(
            predictions,
            out,
            label=label,
            prediction=prediction,
            weight=weight,
            slices=slices or (),
            thresholds=bounds,
        )
    if as_json:
        typer.echo(found.to_json(), nl=False)
    else:
        _show(found, out)
    if found.failures:
        raise DataError("; ".join(found.failures))


def _bound(text: str) -> tuple[str, float]:
    name, value = name_and_value("--threshold", text)
    try:
        return name, float(value)
    except ValueError as error:
        raise UsageError(f"--threshold {text}: expected a number after {name}=") from error


def _show(found: "Evaluation", out: Path) -> None:
    from penstock.components.evaluator.slice_metrics import OVERALL
    from penstock.pipelines.prediction.evaluate import PAGE_NAME
    from penstock.pipelines.terminal.tables import console, print_table

    within = found.intervals.get(OVERALL, {})
    rows = [
        (name, f"{value:.6g}", "{:.4g} to {:.4g}".format(*within[name]) if name in within else "")
        for name, value in found.metrics[OVERALL].items()
    ]
    screen = console()
    print_table(screen, f"{found.rows:,} rows", ("metric", "value", "95 % interval"), rows)
    if worst := found.worst_slices(_MOST_SLICES):
        screen.print(f"worst by {found.deciding_metric}: {', '.join(worst)}")
    screen.print(f"{out / PAGE_NAME}")
