"""The `penstock` command: names, help and exit codes of all commands.

Exit codes: 0 done; 1 the data is bad or the run failed, with the reason on stderr; 2 wrong use; 130
interrupted by Ctrl-C or SIGTERM. A `penstock worker` also ends with the exit codes of the errors in
`components/trainer/interrupt.py`.
"""

import gc
import importlib
import importlib.util
import os
import sys
import warnings
from contextlib import suppress
from pathlib import Path
from typing import Annotated

import typer

from penstock import __version__
from penstock.components.errors import PenstockError, one_line
from penstock.pipelines.cli import containers, runs
from penstock.pipelines.terminal.interrupts import (
    EXIT_CODE,
    catch_interrupts,
    end_interrupted,
    was_interrupted,
)
from penstock.pipelines.terminal.tables import plain

# Kubernetes mounts this file into each container, and reads at most 4,096 bytes of it.
_TERMINATION_LOG = Path("/dev/termination-log")
_MAX_TERMINATION_CHARS = 1000

app = typer.Typer(
    name="penstock",
    help="Turn outside data into sharded, checked TFRecords; train and push models from them.",
    no_args_is_help=True,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    add_completion=True,
)
# Commands in the order of the help.
for _name in (
    *("sample", "init", "run", "predict", "evaluate", "report", "ingest", "pack", "export"),
    *("inspect", "verify", "diff", "compile", "submit", "doctor", "node"),
):
    _module = importlib.import_module(f"penstock.pipelines.cli.{_name}")
    app.command(_name, cls=getattr(_module, "Command", None))(_module.command)
app.add_typer(runs.app, name="runs", help="List runs, show one, remove what old runs left.")
if importlib.util.find_spec("penstock.benchmarks"):  # only in a checkout
    app.add_typer(
        importlib.import_module("penstock.benchmarks.command").app,
        name="bench",
        help="Measure Penstock against its peers on this machine; one page each.",
    )
app.command("worker", hidden=True)(containers.worker)
app.command("component", hidden=True)(containers.component)
app.command("notify", hidden=True)(containers.notify)


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"penstock {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_print_version, is_eager=True, help="Print the version."
        ),
    ] = False,
) -> None:
    del version


def main() -> None:
    """Runs the command; an error that the user can fix is one line on stderr and an exit code."""
    # TensorFlow's C++ code reads this variable when it is loaded; its start messages are of no use
    # to users.
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    # NumPy's OpenBLAS reads this variable when it is loaded. By default each of its idle threads
    # spins for 2**26 cycles after a call, which takes 0.6 s of CPU in a short run.
    os.environ.setdefault("OPENBLAS_THREAD_TIMEOUT", "16")
    command = next((word for word in sys.argv[1:] if not word.startswith("-")), "")
    spare_imports(command)
    # Google's clients print a dozen warnings about Python 3.10 when they are imported.
    warnings.filterwarnings("ignore", category=FutureWarning, module="google")
    catch_interrupts()
    try:
        code = app(standalone_mode=False) or 0
        if sys.stdout:
            sys.stdout.flush()
        sys.exit(code)
    except BaseException as error:
        if was_interrupted(error) or getattr(error, "exit_code", None) == EXIT_CODE:
            _complain(str(error) if isinstance(error, PenstockError) else "interrupted", EXIT_CODE)
            end_interrupted()
        if isinstance(error, PenstockError):
            sys.exit(_complain(str(error), error.exit_code))
        if hasattr(error, "format_message"):  # wrong use of a command, in Typer's wording
            text = " ".join(error.format_message().split())
            sys.exit(_complain(text, 2) if text else 2)  # without a text, Typer printed the help
        if isinstance(error, BrokenPipeError):  # as in `penstock runs list | head`
            sys.exit(_drop_output(1))
        if text := _line_of_system(error):
            sys.exit(_drop_output(_complain(text, 1)))
        raise


def spare_imports(command: str = "") -> None:
    """Blocks slow imports that the command never uses; call it only in Penstock's own process.

    TFX's InfraValidator imports Kubernetes' client, which imports a validator of manifests if one
    is installed; this takes 2.3 s. TensorFlow imports Keras and Google's client, which takes 1.4 s;
    it can load and run a SavedModel without them.
    """
    unused = ("keras", "googleapiclient") if command == "predict" else ("kubernetes_validate",)
    for name in unused:
        sys.modules.setdefault(name, None)  # type: ignore[arg-type]
    # Garbage collection among the million objects of libraries would take 1.2 s during a run's
    # imports.
    gc.set_threshold(100_000, 20, 20)


def _line_of_system(error: BaseException) -> str:
    """Returns the operating system's reason for an error of a file or memory; "" for other errors.

    This is not part of `main`: there, a variable with the error would form a reference cycle with
    the error's own frames. Files that a user's module has open would be part of the cycle, and
    nothing would then flush and close them.
    """
    # Typer turns the EOFError of truncated data into an Abort.
    seen = error.__cause__ if isinstance(error.__cause__, EOFError) else error
    if isinstance(seen, ImportError) and "failed to map segment" in str(seen):
        seen = MemoryError()
    if isinstance(seen, OSError | EOFError | MemoryError):
        return one_line(seen) or "unexpected end of a file"
    return ""


def _complain(text: str, code: int) -> int:
    print(f"penstock: {plain(text)}", file=sys.stderr)
    # In a pod, Kubernetes reports this text as the reason for the failure, and KFP shows it.
    if _TERMINATION_LOG.exists():
        with suppress(OSError):
            _TERMINATION_LOG.write_text(text[:_MAX_TERMINATION_CHARS], encoding="utf-8")
    return code


def _drop_output(code: int) -> int:
    """Redirects stdout to the null device; else Python would fail at exit on unwritten text."""
    with suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return code
