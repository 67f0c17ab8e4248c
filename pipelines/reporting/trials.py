"""The trials of a Tuner, from the `tuner_results.json` that TFX's Tuner writes."""

import json
import posixpath
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from penstock.components.errors import counted
from penstock.pipelines.reporting.artifact_files import read_bytes
from penstock.pipelines.runs.run_record import RunRecord


@dataclass(frozen=True)
class Trial:
    """A trial that ended, its objective and what was drawn for it."""

    name: str
    score: float
    values: Mapping[str, Any]


@dataclass(frozen=True)
class Trials:
    """Trials, the best first; `objective` is `score` if a `tuner_fn` of a user chose it."""

    objective: str
    trials: Sequence[Trial]

    def __str__(self) -> str:
        best = self.trials[0]
        return (
            f"{counted(len(self.trials), 'trial')}, best {self.objective} {best.score:.4f} in "
            f"trial {best.name}: {values_text(best.values)}"
        )


def gather_trials(run: RunRecord, uri: str) -> Trials:
    """Returns the trials of an artifact of type TunerResults."""
    options = (n.options["custom_config"] for n in run.nodes if n.options.get("tuner_fn"))
    tune = (json.loads(next(options, "null")) or {}).get("tune", {})
    found = json.loads(read_bytes(posixpath.join(uri, "tuner_results.json")))
    return Trials(
        tune.get("objective", "score"),
        [Trial(row.pop("trial_id"), row.pop("score"), row) for row in found],
    )


def values_text(values: Mapping[str, Any]) -> str:
    """Returns drawn values as `learning_rate 0.003, units 64`."""
    return ", ".join(f"{name} {_short(value)}" for name, value in values.items())


def _short(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)
