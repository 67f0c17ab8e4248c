"""Runs contenders in turn, each in its own process; reports medians as Markdown and JSON.

A benchmark is a module with a dataclass `Options` and two functions: `prepare(options)` makes the
data, and `groups(options)` returns the comparisons. The module's docstring has a title and says
what is measured. A contender is a function that prepares its work (imports, opens files) and
returns the result of `measure`. CPU time includes the children that the process waited for; memory
is the peak of the largest process.

The command of a child process: python harness.py BENCHMARK OPTIONS [GROUP CONTENDER]
"""

import json
import os
import platform
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field, fields
from functools import partial
from importlib.metadata import version
from pathlib import Path
from types import ModuleType
from typing import Any

from penstock.benchmarks.claims import Claim, outcome
from penstock.components.errors import DataError, PenstockError, UsageError

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")  # TensorFlow reads it when imported

_FOLDER = Path(__file__).resolve().parent

# The benchmarks of `penstock bench`: modules of this folder.
BENCHMARKS = ("formats", "gpu", "images", "ingest", "ladder", "remote", "tabular")
# A contender's columns besides rate, CPU time and memory. A number is shown as the median of all
# runs.
Extra = dict[str, float | str]


@dataclass(frozen=True)
class Measured:
    """One run of one contender; `rows` is a count in the group's unit: rows, images or users."""

    rows: float
    wall_seconds: float
    cpu_seconds: float
    peak_mib: float
    extra: Extra = field(default_factory=dict)


@dataclass(frozen=True)
class Check:
    """A claim that a contender beats the best of the contenders `bases`.

    `by` is `per_second` (more is better), `cpu_us` or an extra column (less is better).
    """

    claim: Claim
    contender: str
    bases: Sequence[str]
    by: str = "cpu_us"


@dataclass(frozen=True)
class Group:
    """Contenders that do the same work, counted in `unit`; the first one is the reference.

    Attributes:
        title: Title of the table.
        unit: `rows`, `images` or `users`.
        contenders: Contenders by name; the table shows the first line of their docstrings as a
            note.
        checks: Claims that the group settles.
        pythons: Interpreters of the contenders that run in another environment, by name.
    """

    title: str
    unit: str
    contenders: Mapping[str, Callable[[], Measured]]
    checks: Sequence[Check] = ()
    pythons: Mapping[str, str] = field(default_factory=dict)


def measure(work: Callable[[], float]) -> Measured:
    """Measures `work`, which returns the number of rows that it processed."""
    cpu, wall = cpu_seconds_now(), time.perf_counter()
    rows = work()
    wall, cpu = time.perf_counter() - wall, cpu_seconds_now() - cpu
    children = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024
    return Measured(rows, wall, cpu, max(own_peak_mib(), children))


def cpu_seconds_now() -> float:
    """CPU time of this process and of its finished children, in seconds."""
    usages = [resource.getrusage(w) for w in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(usage.ru_utime + usage.ru_stime for usage in usages)


def own_peak_mib() -> float:
    """Peak memory of this process, in MiB.

    On Linux it is read from `/proc`, because a child's `ru_maxrss` starts at that of its parent.
    """
    status = Path("/proc/self/status")
    if not status.exists():
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return int(status.read_text().partition("VmHWM:")[2].split()[0]) / 1024


def data_folder() -> Path:
    """Folder of generated data, kept between runs; `TMPDIR` moves it."""
    return Path(tempfile.gettempdir()) / "penstock-bench"


def make_once(path: Path, make: Callable[[Path], object]) -> Path:
    """Returns `path`, a file or folder; if it does not exist, `make` writes it."""
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        part = path.with_name(f"{path.name}.{os.getpid()}.part")
        try:
            make(part)
            part.rename(path)
        finally:
            if part.is_dir():
                shutil.rmtree(part)
            part.unlink(missing_ok=True)
    return path


def at_least(options: Any, **least: float | tuple[int, int]) -> None:
    """Raises UsageError if an option is below its minimum.

    A pair `(least, step)` also requires a multiple of `step`.
    """
    for name, wanted in least.items():
        value = getattr(options, name)
        low, step = wanted if isinstance(wanted, tuple) else (wanted, None)
        if value < low or (step and value % step):
            multiple = f" and a multiple of {step}" if step else ""
            raise UsageError(f"{name} must be at least {low}{multiple}, got {value}")


def run(name: str, options: Any) -> dict[str, Any]:
    """Prepares and runs a benchmark by name; returns its outcome as a dict for JSON.

    Raises:
        DataError: A contender failed.
    """
    module = load(name)
    began, measured_on = time.perf_counter(), machine()
    run_script(__file__, [name, json.dumps(asdict(options))], "making the data")
    comparisons, verdicts = [], []
    for number, group in enumerate(module.groups(options)):
        found = _in_turn(name, options, number, group)
        comparisons.append({"title": group.title, "unit": group.unit, "contenders": found})
        verdicts += [verdict(group, check, found) for check in group.checks]
    return {
        "question": name,
        "title": title_of(module),
        "setting": [
            " ".join(str(module.__doc__).partition("\n")[2].split()),
            ", ".join(f"{name} {value}" for name, value in asdict(options).items() if value),
            "each contender is a process of its own, in turn; files are in the page cache",
        ],
        "comparisons": comparisons,
        "verdicts": verdicts,
        "seconds": time.perf_counter() - began,
        "machine": measured_on,
    }


def load(name: str) -> ModuleType:
    """Imports a benchmark by name; this does not import TensorFlow."""
    from importlib import import_module

    return import_module(f"penstock.benchmarks.{name}")


def title_of(module: ModuleType) -> str:
    """Returns the first line of a module's docstring."""
    return str(module.__doc__).partition("\n")[0]


def _in_turn(name: str, options: Any, number: int, group: Group) -> list[dict[str, Any]]:
    runs: dict[str, list[Measured]] = {one: [] for one in group.contenders}
    for turn in range(options.rounds):
        for one in group.contenders:
            print(f"{group.title}: {one} ({turn + 1} of {options.rounds})", file=sys.stderr)
            arguments = [name, json.dumps(asdict(options)), f"{number}", one]
            out = run_script(__file__, arguments, one, group.pythons.get(one, sys.executable))
            runs[one].append(Measured(**json.loads(out.splitlines()[-1])))
    return [contender(one, median(runs[one]), note(group.contenders[one])) for one in runs]


def run_script(
    script: str, arguments: Sequence[str], what: str, python: str = sys.executable
) -> str:
    """Runs a script in a process of its own, and returns what it prints.

    Raises:
        DataError: The script failed.
    """
    environ = {**os.environ}
    if python != sys.executable:  # this Python's environment lacks Penstock
        environ["PYTHONPATH"] = str(_FOLDER.parent)
    done = subprocess.run([python, script, *arguments], capture_output=True, text=True, env=environ)
    if done.returncode:
        said = done.stderr.strip().splitlines() or [f"exit code {done.returncode}"]
        raise DataError(f"{what} failed: {said[-1]}")
    return done.stdout


def require_packages(option: str, python: str, packages: Sequence[str]) -> None:
    """Raises UsageError if an option's path is not a Python that has these packages."""
    code = "from importlib.metadata import version as v; import sys; [*map(v, sys.argv[1:])]"
    try:
        command = [python, "-c", code, *packages]
        subprocess.run(command, capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError) as error:
        said = (getattr(error, "stderr", "") or str(error)).strip().splitlines()[-1]
        wanted = " ".join(packages)
        raise UsageError(f"{option}={python}: {said}; it needs: pip install {wanted}") from error


def median(runs: Sequence[Measured]) -> Measured:
    """Returns the median of each number; texts in `extra` are those of the last run."""
    numbers = [one.name for one in fields(Measured) if one.name != "extra"]
    extra = {
        key: value if isinstance(value, str) else statistics.median(r.extra[key] for r in runs)  # type: ignore[type-var]
        for key, value in runs[-1].extra.items()
    }
    return Measured(
        **{n: statistics.median(getattr(r, n) for r in runs) for n in numbers}, extra=extra
    )


def contender(name: str, measured: Measured, text: str = "") -> dict[str, Any]:
    """Returns a contender's entry in the outcome: rate, CPU time per unit, memory, note."""
    return {
        "name": name,
        "per_second": measured.rows / measured.wall_seconds,
        "cpu_us": 1e6 * measured.cpu_seconds / measured.rows,
        "peak_mib": measured.peak_mib,
        "note": text,
        "extra": measured.extra,
    }


def bound(work: Callable[..., Measured], way: Callable[..., Any], **given: Any) -> Any:
    """Returns a contender that calls `work(way)`; its note is the docstring of `way`."""
    one = partial(work, way, **given)
    one.__doc__ = getattr(way, "func", way).__doc__  # for a partial, its function's docstring
    return one


def note(function: Callable[..., Any]) -> str:
    """Returns the first line of a contender's docstring without backquotes."""
    return (function.__doc__ or "").partition("\n")[0].replace("`", "")


def verdict(group: Group, check: Check, found: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Decides a claim by the measured ratio; the result's `how` states the ratio in words."""

    def ratio(base: str) -> float:
        figures = {one["name"]: {**one["extra"], **one} for one in found}
        ours, theirs = figures[check.contender][check.by], figures[base][check.by]
        return ours / theirs if check.by == "per_second" else theirs / ours

    base = min((one for one in check.bases if one in group.contenders), key=ratio)
    by = {"per_second": f"{group.unit}/s", "cpu_us": "CPU time"}.get(check.by, check.by)
    best = " (the best of them)" if len(check.bases) > 1 else ""
    sides = [f"{by} of `{check.contender}`", f"{by} of `{base}`{best}"]
    if check.by != "per_second":
        sides.reverse()
    how = f"{' divided by '.join(sides)} ({group.title})"
    return {
        "claim": asdict(check.claim),
        "measured": ratio(base),
        "how": how,
        "outcome": outcome(check.claim, ratio(base)),
    }


def markdown(found: Mapping[str, Any]) -> str:
    """Returns an outcome as a Markdown page: the setting, the verdicts, then all contenders."""
    lines = [f"# {found['title']}", "", *(f"- {text}" for text in found["setting"])]
    lines += [f"- {'; '.join(f'{name} {value}' for name, value in found['machine'].items())}", ""]
    if found["verdicts"]:
        rows = [
            (one["outcome"], times(one["measured"]), times(one["claim"]["wanted"]),
             one["claim"]["text"], one["how"])
            for one in found["verdicts"]
        ]  # fmt: skip
        lines += table(("verdict", "here", "claimed", "claim", "measured as"), rows)
    for one in found["comparisons"]:
        lines += ["", f"## {one['title']}", "", *_contenders(one)]
    return "\n".join(lines) + "\n"


def _contenders(comparison: Mapping[str, Any]) -> list[str]:
    some = comparison["contenders"]
    extras = list(dict.fromkeys(name for one in some for name in one["extra"]))
    headers = ("contender", f"{comparison['unit']}/s", "CPU us", "x", "x CPU", "peak MiB")
    rows = [
        (
            f"{one['name']}: {one['note']}" if one["note"] else one["name"],
            figure(one["per_second"]),
            figure(one["cpu_us"]),
            times(one["per_second"] / some[0]["per_second"]),
            times(some[0]["cpu_us"] / one["cpu_us"]),
            f"{one['peak_mib']:,.0f}",
            *(figure(one["extra"].get(name, "")) for name in extras),
        )
        for one in some
    ]
    return table((*headers, *extras), rows)


def table(headers: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """Returns the lines of a Markdown table."""
    head, *body = (
        f"| {' | '.join(cell.replace('|', '/') for cell in line)} |" for line in (headers, *rows)
    )
    return [head.replace("|  |", "| |"), "|" + "---|" * len(headers), *body]


def figure(value: float | str) -> str:
    """Formats a figure: from 100 on as a whole number, else with three digits: `1,234`, `12.3`."""
    if isinstance(value, str):
        return value
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


def times(ratio: float) -> str:
    """Formats a ratio; smaller ratios get more decimals: `35`, `3.5`, `0.35`, `0.035`."""
    digits = 0 if ratio >= 20 else 1 if ratio >= 1 else 2 if ratio >= 0.1 else 3
    return f"{ratio:,.{digits}f}"


def machine() -> dict[str, str]:
    """Returns the facts about this machine on which the figures depend, and the measured commit."""
    import psutil

    cpu = platform.processor() or platform.machine()
    info = Path("/proc/cpuinfo")
    if info.is_file():
        lines = [line for line in info.read_text().splitlines() if line.startswith("model name")]
        cpu = lines[0].partition(":")[2].strip() if lines else cpu
    commit = ""
    with suppress(FileNotFoundError):  # containers lack git
        command = ["git", "-C", str(_FOLDER), "rev-parse", "--short", "HEAD"]
        commit = subprocess.run(command, capture_output=True, text=True).stdout.strip()
    return {
        "CPU": cpu,
        "cores": str(len(os.sched_getaffinity(0))),
        "memory": f"{psutil.virtual_memory().total / 2**30:.0f} GiB",
        "load before": f"{os.getloadavg()[0]:.1f}",
        "Python": platform.python_version(),
        "TensorFlow": version("tensorflow"),
        "TFX": version("tfx"),
        "protobuf": version("protobuf"),
        "commit": commit or "unknown",
    }


def main() -> None:
    """Makes the data or, if a contender is named, runs this contender and prints its figures."""
    name, text, *which = sys.argv[1:]
    module = load(name)
    options = module.Options(**json.loads(text))
    if not which:
        try:
            module.prepare(options)
        except PenstockError as error:
            sys.exit(str(error))
        return
    group, one = which
    print(json.dumps(asdict(module.groups(options)[int(group)].contenders[one]())), flush=True)
    # Python's normal exit can hang while threads of tf.data ask a generator for batches: the
    # threads wait for the GIL, while the exit waits for the threads.
    os._exit(0)


if __name__ == "__main__":
    main()
