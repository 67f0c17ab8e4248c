"""The data folder and child processes shared by the questions of `penstock bench`.

A question is a module that runs itself again as `python MODULE --prepare OPTIONS` once and
`python MODULE --contender NAME --job JOB` for each contender and round: so each contender starts
with the memory of a fresh process, and what prepares leaves nothing behind.
"""

import argparse
import json
import os
import sys
import tempfile
from collections.abc import Callable
from dataclasses import asdict
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from penstock.benchmarks.harness import run_script
from penstock.components.errors import PenstockError, UsageError

Prepare = Callable[[Any], None]
Contend = Callable[[str, dict[str, Any]], dict[str, Any]]


def data_folder() -> Path:
    """Where made data stays between two runs; `TMPDIR` moves it."""
    return Path(tempfile.gettempdir()) / "penstock-bench"


def need(*packages: str) -> None:
    """See that the packages of the extra `bench` are there.

    Raises:
        UsageError: One is not.
    """
    missing = [name for name in packages if find_spec(name) is None]
    if missing:
        raise UsageError(
            f"this question needs {', '.join(missing)}: pip install 'penstock-tfx[bench]'"
        )


def prepare(script: str, options: Any, python: str = sys.executable) -> None:
    """Have `script` make what its contenders read; `options` are a dataclass or a mapping.

    Raises:
        DataError: It failed.
    """
    values = options if isinstance(options, dict) else asdict(options)
    run_script(script, ["--prepare", json.dumps(values)], "making the data", python)


def job_arguments(**job: Any) -> list[str]:
    """What a contender is told, as `answer_child` takes it."""
    return ["--job", json.dumps(job)]


def answer_child(options_type: type, prepare: Prepare, contend: Contend) -> None:
    """The main function of a question's module: prepare, or run one contender.

    Args:
        options_type: Of the question's options.
        prepare: Takes these.
        contend: Takes a contender's name and its job; what it gives is printed as JSON, and the
            process ends.

    What the user did wrong is one line on stderr, and exit code 1.
    """
    parser = argparse.ArgumentParser(description="A child process of penstock bench.")
    parser.add_argument("--prepare")
    parser.add_argument("--contender")
    parser.add_argument("--job", default="{}")
    args = parser.parse_args()
    if args.prepare:
        try:
            prepare(options_type(**json.loads(args.prepare)))
        except PenstockError as error:
            sys.exit(str(error))
    else:
        print(json.dumps(contend(args.contender, json.loads(args.job))), flush=True)
        # Python's own end can hang where tf.data's threads still ask a generator for batches:
        # they wait for its lock, and it waits for them.
        os._exit(0)


def first_line(function: Callable[..., Any] | None) -> str:
    """What a contender's docstring says of it, for a page: without its marks of code."""
    return (function.__doc__ or "").splitlines()[0].replace("`", "") if function else ""
