"""Beam pipelines on this machine, and on the engines of `options.py`."""

import os
import shlex
import socket
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec

import apache_beam as beam
from apache_beam.options.pipeline_options import DirectOptions, PipelineOptions
from apache_beam.runners.portability.fn_api_runner import FnApiRunner
from apache_beam.transforms.environments import SubprocessSDKEnvironment

from penstock.components.engine import workers as _workers  # noqa: F401 - watches processes
from penstock.components.engine.options import EngineOptions, local_beam_args
from penstock.components.errors import PenstockError, UsageError, short_error

_ANSWER_SECONDS = 10.0
# The engine's own reason stands after Beam's words for the pipeline.
_SAID_CHARACTERS = 600

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


@contextmanager
def engine_pipeline(engine: EngineOptions) -> Iterator[beam.Pipeline]:
    """A pipeline on an engine, run when the block ends.

    Raises:
        PenstockError: The engine failed; in its words.
        UsageError: It is not installed here, or does not answer.
    """
    if engine.runner == "local":
        with local_pipeline(engine.workers) as pipeline:
            yield pipeline
        return
    _require_engine(engine)
    try:
        with beam.Pipeline(options=PipelineOptions(flags=engine.beam_args())) as pipeline:
            yield pipeline
        if engine.runner == "dask":
            pipeline.result.client.close()  # Beam leaves it open, and it connects again for ever
    except PenstockError:
        raise
    except Exception as error:  # each engine has its own
        said = short_error(error, _SAID_CHARACTERS)
        place = ", ".join(filter(None, (engine.runner, engine.address)))
        raise PenstockError(f"{place}: {said}") from error


def _require_engine(engine: EngineOptions) -> None:
    if not engine.address:
        return
    host, _, port = engine.address.rpartition(":")
    try:
        # Beam and Dask wait for minutes for what is not there.
        socket.create_connection((host, int(port)), _ANSWER_SECONDS).close()
    except (OSError, ValueError) as error:
        raise UsageError(
            f"{engine.runner}: nothing answers at {engine.address} ({error})"
        ) from error
    if engine.job_server_jar is not None and not os.path.isfile(engine.job_server_jar):
        raise UsageError(f"`job_server_jar`: no file {engine.job_server_jar}")
    if engine.runner == "dask" and find_spec("distributed") is None:
        raise UsageError("runner 'dask' is not installed; pip install distributed")
