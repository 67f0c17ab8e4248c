"""Contenders in processes of their own, in turn, several rounds; medians; a table or JSON.

Each contender is a function of a benchmark's module that prepares (imports, opens), calls
`measure` around what is to be measured, and returns what `measure` gave. CPU time counts
the process and the children that it waited for; memory is the largest process's peak.
"""

import json
import os
import platform
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from penstock.components.errors import DataError

# Quiet is what a child's output has to be; TensorFlow reads this when it is imported.
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")


# The checkout, for a Python in which Penstock is not installed.
_ROOT = Path(__file__).resolve().parents[1]


@dataclass(frozen=True)
class Measured:
    """One run of one contender."""

    rows: int
    wall_seconds: float
    cpu_seconds: float
    peak_mib: float


def measure(work: Callable[[], int]) -> Measured:
    """Run `work`, which says how many rows it did."""
    cpu, wall = cpu_seconds_now(), time.perf_counter()
    rows = work()
    wall, cpu = time.perf_counter() - wall, cpu_seconds_now() - cpu
    return Measured(rows, wall, cpu, peak_mib_now())


def cpu_seconds_now() -> float:
    """CPU time of this process and of the children that it waited for."""
    usages = [resource.getrusage(w) for w in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(usage.ru_utime + usage.ru_stime for usage in usages)


def peak_mib_now() -> float:
    """Most memory that this process or one of these children held."""
    children = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024
    return max(own_peak_mib(), children)


def own_peak_mib() -> float:
    """Most memory of this process; on Linux `ru_maxrss` starts at the peak of its parent."""
    status = Path("/proc/self/status")
    if not status.exists():
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return int(status.read_text().partition("VmHWM:")[2].split()[0]) / 1024


def in_turn(
    script: str, contenders: Sequence[tuple[str, Sequence[str]]], rounds: int
) -> dict[str, Measured]:
    """The median of each contender, whose process prints a `Measured`; see `runs_in_turn`."""
    runs = runs_in_turn(script, contenders, rounds)
    return {name: median([Measured(**run) for run in found]) for name, found in runs.items()}


def runs_in_turn(
    script: str,
    contenders: Sequence[tuple[str, Sequence[str]]],
    rounds: int,
    *,
    python: str = sys.executable,
) -> dict[str, list[dict[str, Any]]]:
    """What each contender printed, all contenders in each round.

    Args:
        script: The benchmark's file; called as `script --contender NAME ARGUMENTS`. The last line
            that it prints is JSON.
        contenders: Names and their arguments.
        rounds: How often.
        python: Of another environment than this one's.

    Raises:
        DataError: A contender failed.
    """
    runs: dict[str, list[dict[str, Any]]] = {name: [] for name, _ in contenders}
    for number in range(rounds):
        for name, arguments in contenders:
            print(f"round {number + 1} of {rounds}: {name}", file=sys.stderr, flush=True)
            out = run_script(script, ["--contender", name, *arguments], name, python)
            runs[name].append(json.loads(out.splitlines()[-1]))
    return runs


def run_script(
    script: str, arguments: Sequence[str], what: str, python: str = sys.executable
) -> str:
    """What a process of its own prints.

    Raises:
        DataError: It failed.
    """
    environ = os.environ if python == sys.executable else {**os.environ, "PYTHONPATH": str(_ROOT)}
    done = subprocess.run([python, script, *arguments], capture_output=True, text=True, env=environ)
    if done.returncode < 0:
        raise DataError(
            f"{what} was ended by signal {-done.returncode}; 9 is what lack of memory does"
        )
    if done.returncode:
        said = done.stderr.strip().splitlines() or [f"exit code {done.returncode}"]
        raise DataError(f"{what} failed: {said[-1]}")
    return done.stdout


def median(runs: Sequence[Measured]) -> Measured:
    """Of each figure."""
    fields = [asdict(run) for run in runs]
    return Measured(**{key: statistics.median(f[key] for f in fields) for key in fields[0]})


def report(title: str, results: dict[str, Measured], base: str, *, as_json: bool) -> None:
    """Print the medians, each with its CPU rate as a multiple of the contender `base`."""
    if as_json:
        print(json.dumps({name: asdict(result) for name, result in results.items()}, indent=1))
        return
    cores = len(os.sched_getaffinity(0))
    print(f"{title}\n{platform.machine()}, {cores} cores, Python {platform.python_version()}\n")
    print(f"{'':28} {'rows/s':>12} {'CPU us/row':>11} {'x per CPU s':>12} {'peak MiB':>9}")
    reference = results[base].cpu_seconds / results[base].rows
    for name, r in results.items():
        per_row = r.cpu_seconds / r.rows
        print(
            f"{name:28} {r.rows / r.wall_seconds:12,.0f} {per_row * 1e6:11.2f} "
            f"{reference / per_row:12.1f} {r.peak_mib:9,.0f}"
        )
