"""Beam pipelines on this machine, and on the engines of `options.py`."""

import shlex
import sys

import apache_beam as beam
from apache_beam.options.pipeline_options import DirectOptions, PipelineOptions
from apache_beam.runners.portability.fn_api_runner import FnApiRunner
from apache_beam.transforms.environments import SubprocessSDKEnvironment

from penstock.components.engine import workers as _workers  # noqa: F401 - watches processes
from penstock.components.engine.options import EngineOptions, local_beam_args

# Beam's own, but Ctrl-C is left to the process that started it: a worker would print a traceback.
# What Google's clients warn of at every import is of no use to a person either.
_WORKER_COMMAND = (
    f"trap '' INT; exec {shlex.quote(sys.executable)} -W ignore::FutureWarning "
    "-m apache_beam.runners.worker.sdk_worker_main"
)


def local_pipeline(workers: int = 1) -> beam.Pipeline:
    """A pipeline on Beam's own local runner."""
    options = PipelineOptions(flags=local_beam_args(workers))
    if workers == 1:
        return beam.Pipeline(options=options)
    # Else the runner puts a command of its own in place of ours.
    options.view_as(DirectOptions).direct_running_mode = None
    environment = SubprocessSDKEnvironment.from_command_string(_WORKER_COMMAND)
    return beam.Pipeline(FnApiRunner(default_environment=environment), options=options)


def engine_pipeline(engine: EngineOptions) -> beam.Pipeline:
    """A pipeline on an engine."""
    if engine.runner == "local":
        return local_pipeline(engine.workers)
    return beam.Pipeline(options=PipelineOptions(flags=engine.beam_args()))
