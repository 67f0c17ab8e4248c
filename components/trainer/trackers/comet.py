"""Comet: an experiment on its server, or an archive for `comet upload`."""

import logging
import os
from collections.abc import Mapping
from typing import Any

from penstock.components.errors import UsageError
from penstock.components.trainer.trackers.tracker import State

# Set before the import: otherwise Comet patches Keras and TensorFlow, logs on its own, and sends
# its own errors to its server.
os.environ["COMET_DISABLE_AUTO_LOGGING"] = "1"
os.environ["COMET_ERROR_TRACKING_ENABLE"] = "0"

import comet_ml

# Only our own logging: no source code, git state, command line or list of packages.
_QUIET: dict[str, Any] = {
    "log_code": False,
    "log_graph": False,
    "log_git_metadata": False,
    "log_git_patch": False,
    "log_env_details": False,
    "parse_args": False,
    "auto_param_logging": False,
    "auto_metric_logging": False,
    "auto_output_logging": False,
    "display_summary_level": 0,
}


class CometTracker:
    """A Comet experiment: new, or continued with `run`; an archive in `offline_dir` if given."""

    def __init__(self, project: str, run: str | None, offline_dir: str | None) -> None:
        logging.getLogger("comet_ml").setLevel(logging.ERROR)
        self.continued = run is not None
        self._experiment = _open(project, run, offline_dir)
        self.run = str(self._experiment.get_key())
        if offline_dir is None and not self._experiment.alive:
            raise OSError(
                "Comet does not accept data: is COMET_API_KEY right, and its server reached?"
            )
        self.url = None if offline_dir is not None else str(self._experiment.url)

    def params(self, values: Mapping[str, str]) -> None:
        self._experiment.log_parameters(dict(values))

    def metrics(self, values: Mapping[str, float], step: int) -> None:
        self._experiment.log_metrics(dict(values), step=step)

    def file(self, name: str, text: str) -> None:
        self._experiment.log_asset_data(text, name=name)

    def end(self, state: State) -> None:
        self._experiment.log_other("state", state)
        sent = self._experiment.flush()
        self._experiment.end()
        if sent is False:
            raise OSError("Comet has not taken all of it")


def _open(project: str, run: str | None, offline_dir: str | None) -> Any:
    if offline_dir is not None:
        os.makedirs(offline_dir, exist_ok=True)
        options = {**_QUIET, "offline_directory": offline_dir}
        if run is None:
            return comet_ml.OfflineExperiment(project_name=project, **options)
        return comet_ml.ExistingOfflineExperiment(previous_experiment=run, **options)
    key = os.environ.get("COMET_API_KEY")
    if not key:
        raise UsageError("track.kind=comet needs COMET_API_KEY in the environment")
    if run is None:
        return comet_ml.Experiment(api_key=key, project_name=project, **_QUIET)
    return comet_ml.ExistingExperiment(api_key=key, previous_experiment=run, **_QUIET)
