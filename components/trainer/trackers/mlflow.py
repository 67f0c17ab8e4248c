"""MLflow: a run on a tracking server."""

import time
from collections.abc import Mapping, Sequence

from mlflow import MlflowClient
from mlflow.entities import Metric, Param, RunStatus

from penstock.components.trainer.trackers.background import State, redacted

_STATUS: Mapping[State, int] = {
    "finished": RunStatus.FINISHED,
    "failed": RunStatus.FAILED,
    "interrupted": RunStatus.KILLED,
}
_BATCH = 100  # maximum number of params in one request to MLflow
_MAX_PARAM_CHARACTERS = 6000


class MlflowTracker:
    """An MLflow run: new, or continues `run`; `uri` defaults to `MLFLOW_TRACKING_URI`."""

    def __init__(self, uri: str | None, experiment: str, run: str | None) -> None:
        self._client = MlflowClient(tracking_uri=uri)
        found = self._client.get_experiment_by_name(experiment)
        number = found.experiment_id if found else self._client.create_experiment(experiment)
        self.continued = run is not None
        if run is None:
            run = self._client.create_run(number).info.run_id
        else:
            self._client.update_run(run, status=RunStatus.to_string(RunStatus.RUNNING))
        self.run = run
        address = self._client.tracking_uri.rstrip("/")
        on_server = address.startswith("http")
        self.url = redacted(f"{address}/#/experiments/{number}/runs/{run}") if on_server else None

    def params(self, values: Mapping[str, str]) -> None:
        params = [Param(name, value[:_MAX_PARAM_CHARACTERS]) for name, value in values.items()]
        for begin in range(0, len(params), _BATCH):
            self._client.log_batch(self.run, params=params[begin : begin + _BATCH])

    def metrics(self, values: Mapping[str, float], step: int) -> None:
        now = int(1000 * time.time())
        metrics: Sequence[Metric] = [Metric(name, v, now, step) for name, v in values.items()]
        self._client.log_batch(self.run, metrics=metrics)

    def file(self, name: str, text: str) -> None:
        self._client.log_text(self.run, text, name)

    def end(self, state: State) -> None:
        self._client.set_terminated(self.run, RunStatus.to_string(_STATUS[state]))
