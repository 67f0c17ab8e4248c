"""Beam pipelines on the engines of `options.py`, and the engine for a TFX node."""

import os
import shutil
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing import cpu_count

import apache_beam as beam
from apache_beam.options.pipeline_options import DirectOptions, PipelineOptions

from penstock.components.engine import workers as _workers  # noqa: F401 - watches processes
from penstock.components.engine.beam_tasks import LOCAL_RUNNERS
from penstock.components.engine.options import EngineOptions
from penstock.components.engine.tasks import Engine, MakePipeline
from penstock.components.errors import PenstockError, UsageError, short_error

_ANSWER_SECONDS = 10.0
# In Beam's message, the engine's own reason comes last.
_SAID_CHARACTERS = 600


@contextmanager
def engine_pipeline(engine: EngineOptions) -> Iterator[beam.Pipeline]:
    """Yields a pipeline that runs on an engine when the block ends; its errors have the reason."""
    _require_engine(engine)
    try:
        with beam.Pipeline(options=PipelineOptions(flags=engine.beam_args())) as pipeline:
            yield pipeline
    except PenstockError:
        raise
    except Exception as error:  # each engine has its own error class
        said = short_error(error, _SAID_CHARACTERS)
        place = ", ".join(filter(None, (engine.runner, engine.address)))
        raise PenstockError(f"{place}: {said}") from error


def _require_engine(engine: EngineOptions) -> None:
    if not engine.address:
        return
    host, _, port = engine.address.rpartition(":")
    try:
        # Without this check, Beam would wait for minutes.
        socket.create_connection((host, int(port)), _ANSWER_SECONDS).close()
    except (OSError, ValueError) as error:
        raise UsageError(
            f"{engine.runner}: nothing answers at {engine.address} ({error})"
        ) from error
    if engine.job_server_jar is not None and not os.path.isfile(engine.job_server_jar):
        raise UsageError(f"`job_server_jar`: no file {engine.job_server_jar}")


def node_engine(make_pipeline: MakePipeline) -> Engine:
    """Returns the engine that a TFX node's `beam_pipeline_args` describe."""
    pipeline = make_pipeline()
    assert isinstance(pipeline, beam.Pipeline)
    # Beam removes this folder of a pipeline only after it has run.
    shutil.rmtree(pipeline.local_tempdir, ignore_errors=True)
    if not isinstance(pipeline.runner, LOCAL_RUNNERS):
        return make_pipeline
    options = pipeline.options.view_as(DirectOptions)
    if options.direct_running_mode == "in_memory":  # as in Beam, for any number of workers
        return 1
    return options.direct_num_workers or cpu_count()  # 0 means all cores, as in Beam
