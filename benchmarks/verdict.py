"""A training's verdict held against what the remedy gains: one batch, or the option changed.

penstock bench verdict
"""

import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from penstock.benchmarks import claims, questions
from penstock.benchmarks import input as rows_benchmark
from penstock.benchmarks import packed as packed_tables
from penstock.benchmarks.make_once import make_once
from penstock.benchmarks.outcome import FactTable, Outcome
from penstock.benchmarks.trained import TrainedOptions, in_turn, train_for
from penstock.benchmarks.verdict_cases import (
    CASES,
    GZIP,
    SHARDS,
    Case,
    Training,
    make_model,
    open_input,
    shards_of,
)
from penstock.components.errors import UsageError, counted


@dataclass(frozen=True)
class VerdictOptions(TrainedOptions):
    """What is trained on, in which cases, and how often.

    Attributes:
        only: Cases whose names have this in them; nothing takes all.
    """

    only: str = ""

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.cases:
            names = "; ".join(case.name for case in CASES)
            raise UsageError(f"no case has {self.only!r} in its name: there are {names}")

    @property
    def cases(self) -> list[Case]:
        """The cases that are tried."""
        return [case for case in CASES if self.only in case.name]


def prepare(options: VerdictOptions) -> None:
    """Write the rows as 16 shards, as one and compressed, and packed, unless they are there."""
    folder = questions.data_folder()
    packed_tables.prepare(folder, options.rows)
    rows_benchmark.shards(folder, options.rows, 1)
    make_once(shards_of(GZIP, options.rows), lambda root: _compress(root, options.rows))


def _compress(root: Path, rows: int) -> None:
    import tensorflow as tf

    root.mkdir()
    for path in shards_of(SHARDS, rows).iterdir():
        with tf.io.TFRecordWriter(str(root / f"{path.name}.gz"), "GZIP") as out:
            for record in tf.data.TFRecordDataset(str(path)):
                out.write(record.numpy())


def run(options: VerdictOptions) -> Outcome:
    """Train each case without its remedy and with it, all in turn."""
    began = time.perf_counter()
    questions.prepare(__file__, options)
    job = questions.job_arguments(options=asdict(options))
    wanted = [one for case in options.cases for one in (case.before, case.after)]
    names = [name for name, one in _trainings().items() if one in wanted]
    found = in_turn(__file__, names, job, options.rounds)
    results = [
        (case, found[_name(case.before)], found[_name(case.after)]) for case in options.cases
    ]
    return Outcome(
        question="verdict",
        title="Is what a training is told of its input true?",
        setting=_setting(options),
        comparisons=[],
        facts=[_table(results)],
        verdicts=[_judge_knob(one) if one[0].knob else _judge_gain(one) for one in results],
        seconds=time.perf_counter() - began,
    )


Figures = Mapping[str, Any]
Result = tuple[Case, Figures, Figures]


def _trainings() -> dict[str, Training]:
    """All trainings of all cases by name, each once."""
    named: dict[str, Training] = {}
    for case in CASES:
        for when, training in (("as it comes", case.before), ("with the remedy", case.after)):
            if training not in named.values():
                named[f"{case.name}, {when}"] = training
    return named


def _name(training: Training) -> str:
    return next(name for name, one in _trainings().items() if one == training)


def _measured(before: Figures, after: Figures) -> float:
    gain: float = after["rows_per_second"] / before["rows_per_second"]
    return gain


def _range(before: Figures) -> tuple[float, float]:
    return before["gain"] / (1 + before["noise"]), before["gain"] * (1 + before["noise"])


def _judge_gain(result: Result) -> claims.Judgement:
    case, before, after = result
    (least, most), gain = _range(before), _measured(before, after)
    if _is_unclear(before):
        said = f"{case.name}: unclear, one batch gains {gain:.2f}"
        return claims.Judgement(claims.GAIN_IS_TRUE, gain, said, "unclear")
    nearest = min(max(gain, least), most)
    how = f"{case.name}: told {least:.2f} to {most:.2f}, one batch gains {gain:.2f}"
    return claims.judge(claims.GAIN_IS_TRUE, min(nearest / gain, gain / nearest), how)


def _judge_knob(result: Result) -> claims.Judgement:
    case, before, after = result
    gain = _measured(before, after)
    if _is_unclear(before):
        said = f"{case.name}: unclear, {case.knob} gains {gain:.2f}"
        return claims.Judgement(claims.KNOB_GAINS, gain, said, "unclear")
    named = case.knob in before["verdict"]
    how = f"{case.name}: {case.knob}" + ("" if named else " is not named")
    return claims.judge(claims.KNOB_GAINS, gain if named else 0.0, how)


def _is_unclear(figures: Figures) -> bool:
    return bool(figures["verdict"].startswith("unclear"))


def _table(results: Sequence[Result]) -> FactTable:
    rows = [
        (case.name, case.knob or "one batch", _measured(before, after), *_range(before),
         before["verdict"])
        for case, before, after in results
    ]  # fmt: skip
    headers = ("Case", "Remedy", "It gains, times", "Told, from, times", "to", "Told")
    return FactTable("Each training, told and with its remedy", headers, rows)


def _setting(options: VerdictOptions) -> list[str]:
    return [
        f"{options.rows:,} made rows of 40 columns, two layers over 32 numbers",
        f"{counted(options.rounds, 'round')} of {options.seconds:g} s of steady steps, each "
        "training a process of its own, in turn",
        "a gain is told from one training alone; measured, it is the rate of another that gets its "
        "first batch for ever, or has the knob turned",
    ]


def _contend(name: str, job: dict[str, Any]) -> dict[str, Any]:
    options, training = VerdictOptions(**job["options"]), _trainings()[name]
    data, facts, batch_rows = open_input(training, options.rows)
    return train_for(
        options.seconds, lambda: make_model(training), data, batch_rows=batch_rows, facts=facts
    )


if __name__ == "__main__":
    questions.answer_child(VerdictOptions, prepare, _contend)
