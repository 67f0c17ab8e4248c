"""Runs `penstock` commands in forks of a process that has already imported TensorFlow and TFX.

A command has its own process, working directory, environment, output and exit code, as from a
shell. It starts in milliseconds, while a command from a shell takes five seconds of CPU time to
start.
"""

import atexit
import gc
import importlib
import json
import os
import runpy
import select
import signal
import subprocess
import sys
import tempfile
import textwrap
import threading
import traceback
import types
from contextlib import suppress
from pathlib import Path

WARM = (
    "matplotlib.figure",
    "penstock.pipelines.cli.run",
    "penstock.pipelines.kubeflow.node",
    "penstock.pipelines.local.runner",
    "penstock.pipelines.reporting.write",
    "penstock.pipelines.reporting.page",
    "penstock.pipelines.reporting.summary",
    "penstock.pipelines.taxi.pipeline",
    "penstock.pipelines.taxi.model",
    "penstock.pipelines.digits.pipeline",
    "penstock.pipelines.digits.model",
)


class Started:
    """A running command.

    Attributes:
        pid: Id of its process.
    """

    def __init__(self, request, answers):
        self._request, self._answers = request, answers
        self._code = None
        self.pid = int(answers.readline())

    def is_running(self):
        """Whether the command is still running."""
        return not select.select([self._answers], [], [], 0)[0]

    def wait(self):
        """Waits for exit code (negative if a signal ended the command), stdout and stderr."""
        if self._code is None:
            self._code = int(self._answers.readline())
        files = (Path(self._request[key]) for key in ("out", "err"))
        out, err = (file.read_text() if file.is_file() else "" for file in files)
        return subprocess.CompletedProcess(self._request["arguments"], self._code, out, err)

    def end(self):
        """Kills the command if it is still running."""
        if self._code is None:
            with suppress(ProcessLookupError):
                os.kill(self.pid, signal.SIGKILL)
            self.wait()


def _environment():
    """The environment of this process, without the variable that importing TFT sets."""
    return {name: text for name, text in os.environ.items() if name != "TF_USE_LEGACY_KERAS"}


class Penstock:
    """Runs commands, one at a time: `penstock("ingest", "trips.csv", "shards", cwd=folder)`."""

    def __init__(self, folder):
        self._folder = folder
        self._server = self._last = None

    def __call__(self, *arguments, **more):
        return self.start(*arguments, **more).wait()

    def start(self, *arguments, cwd=None, env=None, script=None, **streams):
        """Starts a command.

        Args:
            arguments: Arguments of the command.
            cwd: Its working directory, by default that of this process.
            env: Its environment, by default that of this process without `TF_USE_LEGACY_KERAS`.
            script: A Python file that is run in place of `penstock`.
            streams: Devices in place of the files `out` and `err`, a terminal for example.
        """
        if self._server is None:
            self._server = subprocess.Popen(
                [sys.executable, "-W", "ignore", __file__],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
                env={**_environment(), "TF_CPP_MIN_LOG_LEVEL": "3"},
            )
        elif self._last is not None:
            self._last.end()  # left by a test that failed before it waited
        request = {
            "arguments": [str(argument) for argument in arguments],
            "script": script,
            "cwd": str(cwd or Path.cwd()),
            "env": env or _environment(),
            "out": str(self._folder / "out"),
            "err": str(self._folder / "err"),
            **streams,
        }
        self._server.stdin.write(json.dumps(request) + "\n")
        self._server.stdin.flush()
        self._last = Started(request, self._server.stdout)
        return self._last

    def run_code(self, code, *arguments, **more):
        """Runs Python code instead of `penstock`; it can import modules in `tests`."""
        script = self._folder / "code.py"
        script.write_text(textwrap.dedent(code))
        return self(*arguments, script=str(script), **more)

    def close(self):
        """Ends the process whose forks run the commands."""
        if self._server is not None:
            self._server.stdin.close()
            self._server.wait()
            self._server.stdout.close()


def _serve():
    """Answers requests, JSON lines on stdin, with two lines each: process id and exit code."""
    folder = sys.path.pop(0)
    # IPython, once imported, has its folder `extensions` in `sys.path`, and this folder contains
    # another package `tests`. With this entry in `sys.modules`, `import tests` gives ours.
    sys.modules["tests"] = tests = types.ModuleType("tests")
    tests.__path__ = [folder]
    gc.set_threshold(100_000, 50, 100)  # see conftest.py
    for module in WARM:
        importlib.import_module(module)
    gc.freeze()  # so that garbage collection in a fork copies no shared pages
    for line in sys.stdin:
        pid = os.fork()
        if pid == 0:
            os._exit(_run(json.loads(line)))
        print(pid, flush=True)
        _, status = os.waitpid(pid, 0)
        print(os.waitstatus_to_exitcode(status), flush=True)


def _run(request):
    """Runs the command in the new process; returns its exit code."""
    for number, key in ((1, "out"), (2, "err")):
        os.dup2(os.open(request[key], os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOCTTY), number)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.chdir(request["cwd"])
    os.environ.clear()
    os.environ.update(request["env"])
    tempfile.tempdir = None  # so that Python computes it again, from the command's TMPDIR
    sys.path[:0] = filter(None, request["env"].get("PYTHONPATH", "").split(os.pathsep))
    sys.argv = [request["script"] or "penstock", *request["arguments"]]
    try:
        if request["script"]:
            runpy.run_path(request["script"], run_name="__main__")
        else:
            main()
        code = 0
    except SystemExit as ended:
        code = ended.code or 0
    except BaseException:
        traceback.print_exc()
        code = 1
    # These calls do what the interpreter does at its end, without the two seconds that it takes to
    # tear down every module.
    threading._shutdown()
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    return code


if __name__ == "__main__":
    from penstock.pipelines.cli.main import main

    _serve()
