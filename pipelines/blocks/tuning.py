"""The `tuner_fn` of TFX's Tuner: trains with random options of `search_space`, keeps the best.

A trial runs the pipeline's `run_fn` up to the end of the training. The drawn values depend only on
the seed, and a trial's folder depends only on its data, base model and options. So if a killed
search is started again, it draws the same values, reads the records of finished trials, and resumes
the unfinished one.
"""

import posixpath
from contextlib import suppress
from pkgutil import resolve_name
from typing import Any

import attr
import keras
from keras_tuner import HyperParameters, Objective
from keras_tuner.engine.base_tuner import BaseTuner
from keras_tuner.engine.trial import Trial
from keras_tuner.errors import FailedTrialError, FatalError
from keras_tuner.oracles import RandomSearchOracle
from tfx.components.trainer.fn_args_utils import FnArgs
from tfx.components.tuner.component import TunerFnResult

from penstock.components import activity
from penstock.components.errors import DataError, UsageError, nearest
from penstock.components.memory import release_memory
from penstock.components.trainer.backup import DivergedError
from penstock.components.trainer.checkpoints import resume_dir
from penstock.components.trainer.record import TrainingRecord, read_training_record
from penstock.pipelines.blocks.training_options import search_space
from penstock.pipelines.reporting.trials import values_text


def tuner_fn(fn_args: FnArgs) -> TunerFnResult:
    """Returns the search; `custom_config` must come from a config that sets `tune.trials`."""
    return TunerFnResult(tuner=_Search(fn_args), fit_kwargs={})


class _Search(BaseTuner):
    def __init__(self, fn_args: FnArgs) -> None:
        config = fn_args.custom_config
        tune, seed = config["tune"], config.get("input", {}).get("seed") or 0
        self._fn_args, self._objective, self._failure = fn_args, tune["objective"], ""
        objective, trials = Objective(tune["objective"], tune["mode"]), tune["trials"]
        oracle = RandomSearchOracle(
            objective, trials, seed=seed, max_consecutive_failed_trials=trials + 1
        )
        # KerasTuner's records of trials are overwritten, because finished trials are read from the
        # folders that `_record` chooses.
        where = {"directory": fn_args.working_dir, "overwrite": True}
        super().__init__(oracle, search_space(config["run_fn"]), **where)

    def search(self, *_: Any, **__: Any) -> None:
        """Runs all trials; raises DataError if none finishes."""
        try:
            super().search(verbose=0)
        except FatalError as error:
            raise (error.__cause__ or error) from None
        if all(trial.score is None for trial in self.oracle.trials.values()):
            raise DataError(f"no trial ended; the last one: {self._failure}")

    def run_trial(self, trial: Trial, **_: Any) -> dict[str, float]:
        """Runs a trial; returns the objective's value in the epoch that a Trainer would export."""
        title = f"trial {trial.trial_id}, {values_text(trial.hyperparameters.values)}"
        try:
            score = self._score(self._record(trial.hyperparameters))
        except DivergedError as error:
            self._failure = str(error)
            activity.tell(f"{title}: {error}", is_milestone=True)
            raise FailedTrialError(self._failure) from error
        except Exception as error:  # otherwise KerasTuner would run the next trial
            raise FatalError(str(error)) from error
        activity.tell(f"{title}: {self._objective} {score:.4f}", is_milestone=True)
        return {self._objective: score}

    def _score(self, record: TrainingRecord) -> float:
        [metrics] = [one.metrics for one in record.epochs if one.epoch == record.exported_epoch]
        if self._objective not in metrics:
            known = nearest(self._objective, metrics)
            raise UsageError(f"tune.objective: no metric {self._objective!r}; {known}")
        return metrics[self._objective]

    def _record(self, drawn: HyperParameters) -> TrainingRecord:
        args = self._fn_args
        options = {k: v for k, v in args.custom_config.items() if k not in ("callbacks", "tune")}
        node = args.working_dir.partition("/.system/")[0]
        key = [args.train_files, args.eval_files, args.base_model, options, drawn.values]
        folder = posixpath.join(resume_dir(f"{node}/trials/any", key), "model_run")
        with suppress(DataError):
            return read_training_record(folder)
        keras.utils.clear_session()
        release_memory()
        trial = attr.evolve(args, hyperparameters=drawn.get_config(), model_run_dir=folder)
        resolve_name(args.custom_config["run_fn"])(trial)
        return read_training_record(folder)
