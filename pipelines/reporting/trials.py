"""The trials of a Tuner, from the `tuner_results.json` that TFX's Tuner writes."""

import json
import posixpath
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from penstock.components.errors import DataError, counted
from penstock.pipelines.reporting.artifact_files import read_bytes
from penstock.pipelines.runs.run_record import RunRecord


@dataclass(frozen=True)
class Trials:
    """The finished trials of a Tuner."""

    objective: str  # a metric, or `score` if a user's own `tuner_fn` chose the objective
    rows: Sequence[Mapping[str, Any]]  # `trial_id`, `score`, hyperparameters; best first

    @property
    def drawn(self) -> list[str]:
        """Names of the hyperparameters."""
        return [name for name in self.rows[0] if name not in ("trial_id", "score")]

    def __str__(self) -> str:
        best = self.rows[0]
        values = values_text({name: best[name] for name in self.drawn})
        score = f"best {self.objective} {best['score']:.4f} in trial {best['trial_id']}"
        return f"{counted(len(self.rows), 'trial')}, {score}: {values}"


def gather_trials(run: RunRecord, uri: str) -> Trials:
    """Returns the trials of an artifact of type TunerResults."""
    config = next((n.options["custom_config"] for n in run.nodes if n.options.get("tuner_fn")), "")
    tune = (json.loads(config or "null") or {}).get("tune", {})
    rows = json.loads(read_bytes(posixpath.join(uri, "tuner_results.json")))
    if not rows:
        raise DataError(f"{uri}: no trial ended")
    return Trials(tune.get("objective", "score"), rows)


def values_text(values: Mapping[str, Any]) -> str:
    """Formats the values of hyperparameters as `learning_rate 0.003, units 64`."""
    short = {n: f"{v:.4g}" if isinstance(v, float) else v for n, v in values.items()}
    return ", ".join(f"{name} {value}" for name, value in short.items())
