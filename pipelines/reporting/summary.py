"""Summary of a run in a few lines: data, results, and commands that show more."""

import json
import textwrap
from collections.abc import Sequence
from dataclasses import asdict, dataclass

from rich.console import Console

from penstock.components.errors import counted
from penstock.components.evaluator.evaluation import MIN_SLICE_EXAMPLES, Evaluation
from penstock.components.evaluator.slice_metrics import EXAMPLE_COUNT, MISSING, OVERALL
from penstock.components.tfrecord.manifest import Manifest
from penstock.components.trainer.record import TrainingRecord
from penstock.pipelines.reporting.gather import Report
from penstock.pipelines.reporting.trials import Trials
from penstock.pipelines.runs.ledger import LedgerEntry, ledger_lines, ledger_of
from penstock.pipelines.runs.rivals import Beaten
from penstock.pipelines.runs.run_record import (
    Retraining,
    is_set,
    plain_properties,
    registered,
    serving_problems,
)
from penstock.pipelines.terminal.tables import as_html, console, print_table

_BARS = "▁▂▃▄▅▆▇█"
_INDENT = 12  # width of the left column, which contains names
_WIDTH = 100
_WORST_SLICES = 3


@dataclass(frozen=True)
class NodeSummary:
    """Id, state and duration of a node."""

    node: str
    state: str
    seconds: float


@dataclass(frozen=True)
class RunSummary:
    """Results of a run; a field is None or empty if its node is missing or did not run."""

    pipeline: str
    run_id: str
    nodes: tuple[NodeSummary, ...]
    examples: str | None
    data: Manifest | None  # None if another ExampleGen wrote the Examples
    anomalies: tuple[str, ...] | None
    training: TrainingRecord | None
    bottleneck: str | None
    evaluation: Evaluation | None
    blessed: bool | None
    model: str | None
    pushed: str | None
    registered: str = ""  # version in a registry, `models:/churn/3`
    serving_problems: tuple[str, ...] = ()
    report: str | None = None  # path of the page, or the reason why it is missing
    log: str | None = None
    rivals: tuple[Beaten, ...] = ()
    ledger: tuple[LedgerEntry, ...] = ()
    leakage: tuple[str, ...] = ()
    retraining: Retraining | None = None  # None without a RetrainGate
    trials: Trials | None = None  # None without a Tuner
    missing: tuple[str, ...] = ()  # artifacts that cannot be read, and why

    def to_json(self) -> str:
        """Returns the summary as a JSON object, without the shards, which the manifest lists."""
        raw = asdict(self)
        if raw["data"]:
            raw["data"].pop("splits")
        return json.dumps(raw, indent=1) + "\n"

    def _repr_html_(self) -> str:
        return as_html(lambda out: show_summary(self, out))


def summarize(facts: Report, report: str | None = None) -> RunSummary:
    """Returns the summary of a run whose page is at `report`."""
    run = facts.run
    pushed, blessing = run.artifact("PushedModel"), run.artifact("ModelBlessing")
    found = facts.anomalies
    texts = (f"{a.split}: {a.feature}: {a.text}" for a in found or ())
    return RunSummary(
        pipeline=run.pipeline,
        run_id=run.run_id,
        nodes=tuple(NodeSummary(node.node, node.state, node.seconds) for node in run.nodes),
        examples=run.uri("Examples"),
        data=facts.data.manifest if facts.data else None,
        anomalies=None if found is None else tuple(texts),
        training=facts.training,
        bottleneck=facts.training.verdict if facts.training else None,
        evaluation=facts.evaluation.result if facts.evaluation else None,
        blessed=is_set(blessing, "blessed") if blessing else None,
        model=run.uri("Model"),
        pushed=plain_properties(pushed).get("pushed_destination") or None if pushed else None,
        registered=registered(run),
        serving_problems=serving_problems(run),
        report=report,
        rivals=tuple(facts.rivals),
        ledger=ledger_of(run),
        leakage=tuple(facts.leakage),
        retraining=facts.retraining,
        trials=facts.trials,
        missing=tuple(facts.missing),
    )


def show_summary(summary: RunSummary, out: Console | None = None) -> None:
    """Prints the summary, by default on stdout."""
    out = out or console()
    _print_data(out, summary)
    _say(out, "ledger", *ledger_lines(summary.ledger))
    if summary.retraining:
        word = "yes" if summary.retraining.is_done else "no"
        _say(out, "retrain", f"{word}: {summary.retraining.reason}")
    for line in summary.leakage:
        _say(out, "leakage", line)
    if summary.trials:
        _say(out, "trials", str(summary.trials))
    if summary.training:
        _print_training(out, summary.training, summary.bottleneck or "")
    for beaten in summary.rivals:
        standing = f"the model is {beaten.standing}" if beaten.standing else ""
        _say(out, "rivals", str(beaten), *filter(None, (standing, beaten.missed)))
        if beaten.decision:
            apart = summary.evaluation.held_out if summary.evaluation else None
            told = apart.decided(beaten.label, beaten.threshold) if apart else ""
            _say(out, "decision", beaten.decision, *filter(None, [told]))
    if summary.evaluation:
        _print_evaluation(out, summary.evaluation)
    for line in summary.missing:
        _say(out, "missing", line)
    if summary.blessed is not None:
        failures = summary.evaluation.failures if summary.evaluation else ()
        why = "; ".join(failures) or "the Evaluator gave no reason"
        _say(out, "blessed", "yes: every threshold is reached" if summary.blessed else f"no: {why}")
    if summary.model:
        problems = "; ".join(summary.serving_problems)
        why = f": cannot be served: {problems}" if problems else ""
        _say(out, "model", summary.model)
        _say(out, "pushed", summary.pushed or f"no{why}", *filter(None, [summary.registered]))
    nodes = (
        f"{one.node} {one.state if one.state != 'done' else f'{one.seconds:.1f} s'}"
        for one in summary.nodes
    )
    _say(out, "nodes", ", ".join(nodes))
    if summary.report:
        _say(out, "report", summary.report)
    if summary.examples:
        _say(out, "look closer", f"penstock inspect {summary.examples}")
    if summary.training and summary.model:
        logs = summary.model.rpartition("/model/")[0] + "/model_run"
        _say(out, "", f"tensorboard --logdir {logs}")
    if summary.log:
        _say(out, "log", summary.log)


def _say(out: Console, name: str, *lines: str) -> None:
    """Prints lines one below the other, with a name before the first one."""
    for i, line in enumerate(lines):
        out.print(f"{'' if i else name:<{_INDENT}}{line}")


def _print_data(out: Console, summary: RunSummary) -> None:
    data = summary.data
    if data:
        account = data.account
        splits = ", ".join(f"{name} {rows:,}" for name, rows in account.written.items())
        written = f"{sum(account.written.values()):,} written ({splits})"
        aside = f"{account.quarantined:,} quarantined + {account.blank:,} blank"
        _say(out, "rows", f"{account.read:,} read = {written} + {aside}")
        _say(out, "shards", f"of each split {data.plan}")
        if data.quarantine:
            _say(out, "quarantine", f"{summary.examples}/{data.quarantine}")
    if summary.anomalies is not None:
        _say(out, "anomalies", str(len(summary.anomalies) or "none"), *summary.anomalies)


def _print_training(out: Console, record: TrainingRecord, bottleneck: str) -> None:
    metric = record.best_metric
    values = [epoch.metrics[metric] for epoch in record.epochs if metric in epoch.metrics]
    for best in (epoch for epoch in record.epochs if epoch.epoch == record.best_epoch):
        reached = f"best {best.metrics[metric]:.4f} in epoch {best.epoch}"
        _say(out, "training", f"{metric} {_curve(values)}  {reached}")
    resumed = "" if record.resumed_from is None else f", resumed at step {record.resumed_from}"
    steps = f"{record.steps} steps in {record.seconds:.1f} s{resumed}; {record.stopped}"
    wrap = textwrap.TextWrapper(_WIDTH - _INDENT, break_long_words=False, break_on_hyphens=False)
    _say(out, "", steps, *wrap.wrap(bottleneck))


def _curve(values: Sequence[float]) -> str:
    if not values:
        return ""
    low, span = min(values), max(values) - min(values)
    top = len(_BARS) - 1
    return "".join(_BARS[round((value - low) / span * top) if span else 0] for value in values)


def _print_evaluation(out: Console, evaluation: Evaluation) -> None:
    worst = evaluation.worst_slices(_WORST_SLICES)
    missing = [name for name in evaluation.metrics if name.endswith(MISSING)]
    names = sorted(evaluation.metrics.get(OVERALL, {}))
    if "/" in str(evaluation.deciding_metric):  # few columns, because there are several targets
        limited = (limit.metric for limit in evaluation.thresholds)
        names = [*dict.fromkeys((EXAMPLE_COUNT, str(evaluation.deciding_metric), *limited))]
    rows = [
        [name, *(_cell(metric, evaluation.metrics[name].get(metric)) for metric in names)]
        for name in dict.fromkeys((OVERALL, *worst, *missing))
        if name in evaluation.metrics
    ]
    if (apart := evaluation.held_out) and rows:
        rows.insert(1, ["split test", *(_cell(name, apart.metrics.get(name)) for name in names)])
    worst_by = f"evaluation  worst slices by {evaluation.deciding_metric}"
    print_table(out, worst_by, ["", *names], rows)
    if apart:
        _say(out, "", f"split test: {counted(apart.rows, 'row')} by which nothing was chosen")
    if evaluation.caution:
        _say(out, "", evaluation.caution)
    if few := evaluation.small_slices():
        of_few = f"{counted(len(few), 'slice')} of fewer than {MIN_SLICE_EXAMPLES} rows"
        _say(out, "", f"and {of_few}, the worst {few[0]}")


def _cell(metric: str, value: float | None) -> str:
    if value is None:
        return ""
    return f"{value:,.0f}" if metric == EXAMPLE_COUNT else f"{value:.4f}"
