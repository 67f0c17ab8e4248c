"""Runs `penstock node` once a request, each in a process of its own, for one import of TFX.

Requests are JSON lines on stdin: {"arguments": [...], "out": FILE, "err": FILE}. Answers are two
lines: the process id at once, the exit code at the end.
"""

import json
import os
import sys

import small_pipeline  # noqa: F401  # so that no node pays for it
import typer

import penstock.pipelines.kubeflow.node  # noqa: F401
from penstock.components.errors import PenstockError
from penstock.pipelines.cli import node


def _run(request: dict) -> int:
    for key, number in (("out", 1), ("err", 2)):
        os.dup2(os.open(request[key], os.O_WRONLY | os.O_CREAT | os.O_TRUNC), number)
    app = typer.Typer(pretty_exceptions_enable=False)
    app.command()(node.command)
    try:
        app(request["arguments"], standalone_mode=False)
    except PenstockError as error:
        print(f"penstock: {error}", file=sys.stderr)
        return error.exit_code
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
    return 0


for line in sys.stdin:
    pid = os.fork()
    if pid == 0:
        os._exit(_run(json.loads(line)))
    print(pid, flush=True)
    _, status = os.waitpid(pid, 0)
    print(os.waitstatus_to_exitcode(status), flush=True)
