"""Beam pipelines on the engines of `options.py`, and the engine for a TFX node.

Worker processes that Beam starts on this machine are watched: if one is lost, the work ends.
Otherwise Beam's runner would wait for ever for a worker that the system may have killed for lack of
memory.
"""

import logging
import os
import shutil
import signal
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from multiprocessing import cpu_count

import apache_beam as beam
import grpc
import psutil
from apache_beam.options.pipeline_options import DirectOptions, PipelineOptions
from apache_beam.portability import python_urns
from apache_beam.portability.api import beam_fn_api_pb2
from apache_beam.runners.portability.fn_api_runner.worker_handlers import (
    SubprocessSdkWorkerHandler,
    WorkerHandler,
)
from apache_beam.runners.portability.local_job_service import SubprocessSdkWorker

from penstock.components.engine.beam_tasks import LOCAL_RUNNERS
from penstock.components.engine.options import EngineOptions
from penstock.components.engine.tasks import Engine, MakePipeline
from penstock.components.errors import PenstockError, UsageError, short_error

_ANSWER_SECONDS = 10.0
# Maximum number of characters of Beam's message in an error; the message contains the engine's own
# reason.
_SAID_CHARACTERS = 600
WORKER_LOST = "Beam worker lost:"
_ADVICE = "it may have run out of memory; use fewer workers, or add memory"
# Timeout for the start of a process, long enough for a busy machine.
_START_SECONDS = 10.0
_LOOK_SECONDS = 0.02


@contextmanager
def engine_pipeline(engine: EngineOptions) -> Iterator[beam.Pipeline]:
    """Yields a pipeline, run by an engine at the block's end; errors give the engine's reason."""
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
        # Without this check, Beam would wait minutes for an engine that is not there.
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
    # Beam removes this folder only if the pipeline has run.
    shutil.rmtree(pipeline.local_tempdir, ignore_errors=True)
    if not isinstance(pipeline.runner, LOCAL_RUNNERS):
        return make_pipeline
    options = pipeline.options.view_as(DirectOptions)
    if options.direct_running_mode == "in_memory":  # Beam, too, then ignores the number of workers
        return 1
    return options.direct_num_workers or cpu_count()  # 0 means all cores, as in Beam


@WorkerHandler.register_environment(python_urns.SUBPROCESS_SDK, bytes)
class WatchedWorkerHandler(SubprocessSdkWorkerHandler):
    """Starts a worker; when it dies, fails its requests and kills the pipeline's other workers."""

    _is_closing = False
    _process: psutil.Process | None = None

    def start_worker(self) -> None:
        self.worker = SubprocessSdkWorker(
            # Hides the GPUs in the worker, because its TensorFlow would take their memory.
            b"CUDA_VISIBLE_DEVICES=-1 " + self._worker_command_line,
            self.control_address,
            self.provision_info,
            self.worker_id,
        )
        self.worker_thread = threading.Thread(name="run_worker", target=self._run)
        self.worker_thread.start()
        until = time.monotonic() + _START_SECONDS
        while self._process is None and self.worker_thread.is_alive() and time.monotonic() < until:
            self._process = next(iter(self._processes(self.worker_id)), None)
            time.sleep(_LOOK_SECONDS)

    def close(self) -> None:
        self._is_closing = True
        super().close()

    def _run(self) -> None:
        status = "its process ended"
        try:
            self.worker.run()
        except RuntimeError as error:
            status = _status(int(str(error).rpartition(" ")[2]))
        if not self._is_closing:
            place = f"process {self._process.pid}" if self._process else str(self.worker_id)
            _quiet_broken_connections()
            self._answer(f"{WORKER_LOST} {place} {status}; {_ADVICE}")
            for process in self._processes():
                process.kill()

    def _answer(self, error: str) -> None:
        connection = self.control_conn
        push = connection.push

        def failed(request: beam_fn_api_pb2.InstructionRequest) -> object:
            future = push(request)
            if future is not None:
                future.set(beam_fn_api_pb2.InstructionResponse(error=error))
            return future

        connection.push = failed
        for future in list(connection._futures_by_id.values()):
            future.set(beam_fn_api_pb2.InstructionResponse(error=error))

    def _processes(self, worker_id: str | None = None) -> list[psutil.Process]:
        found = []
        for child in psutil.Process().children():
            with suppress(psutil.Error):
                told = child.environ()
                address = told.get("CONTROL_API_SERVICE_DESCRIPTOR", "")
                if self.control_address in address and worker_id in (None, told["WORKER_ID"]):
                    found.append(child)
        return found


def _quiet_broken_connections() -> None:
    """Silences the tracebacks of Beam's threads whose connection to a lost process breaks."""
    logging.getLogger("apache_beam.runners.worker.data_plane").setLevel(logging.CRITICAL)
    hook = threading.excepthook

    def excepthook(found: threading.ExceptHookArgs) -> None:
        if not issubclass(found.exc_type, grpc.RpcError):
            hook(found)

    threading.excepthook = excepthook


def _status(code: int) -> str:
    """Describes an exit status; a shell adds 128 to the number of a signal."""
    number = -code if code < 0 else code - 128
    with suppress(ValueError):
        return f"was killed by {signal.Signals(number).name}"
    return f"ended with status {code}"
