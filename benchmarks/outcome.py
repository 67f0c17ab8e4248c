"""The outcome of a `penstock bench` question: tables of contenders, plots, verdicts.

One value for all of the command's outputs: text on a terminal, JSON, and a page.
"""

import json
import os
import platform
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

from penstock.benchmarks.claims import Judgement
from penstock.benchmarks.harness import Measured


@dataclass(frozen=True)
class Contender:
    """One way to do it: how much of it in a second of wall time, and what one costs of CPU time."""

    name: str
    per_second: float
    cpu_us: float
    peak_mib: float
    note: str = ""

    @classmethod
    def of(cls, name: str, measured: Measured, note: str = "") -> "Contender":
        """From what the harness measured."""
        return cls(
            name,
            measured.rows / measured.wall_seconds,
            1e6 * measured.cpu_seconds / measured.rows,
            measured.peak_mib,
            note,
        )


@dataclass(frozen=True)
class Comparison:
    """Contenders at the same work, counted in `rows` or `images`; the first is the reference."""

    title: str
    unit: str
    contenders: Sequence[Contender]

    def named(self, name: str) -> Contender:
        """The contender of a name."""
        return next(one for one in self.contenders if one.name == name)

    def cpu_ratio(self, name: str, to: str) -> float:
        """How many times less CPU time `name` takes than `to`."""
        return self.named(to).cpu_us / self.named(name).cpu_us

    def rate_ratio(self, name: str, to: str) -> float:
        """How many times more `name` does in a second than `to`."""
        return self.named(name).per_second / self.named(to).per_second


@dataclass(frozen=True)
class FactTable:
    """Anything else that is told in a table: names, numbers and words."""

    title: str
    headers: Sequence[str]
    rows: Sequence[Sequence[str | float]]


@dataclass(frozen=True)
class Track:
    """A value over time.

    Attributes:
        contender: Whose.
        name: What, with its unit.
        seconds: When.
        values: As measured.
        limit: What there is of it in all, where that is known.
    """

    contender: str
    name: str
    seconds: Sequence[float]
    values: Sequence[float]
    limit: float | None = None


@dataclass(frozen=True)
class Distribution:
    """Many values of one kind, such as the times of a contender's steps, in milliseconds."""

    contender: str
    name: str
    values: Sequence[float]


@dataclass(frozen=True)
class Outcome:
    """All that came of a question, which is the command's word."""

    question: str
    title: str
    setting: Sequence[str]
    comparisons: Sequence[Comparison]
    verdicts: Sequence[Judgement]
    facts: Sequence[FactTable] = ()
    tracks: Sequence[Track] = ()
    distributions: Sequence[Distribution] = ()
    seconds: float = 0.0
    machine: Mapping[str, str] = field(default_factory=lambda: machine())

    def to_json(self) -> str:
        """The outcome as JSON."""
        return json.dumps(asdict(self), indent=1) + "\n"


def times(ratio: float) -> str:
    """A ratio for a person: `35`, `3.5`, `0.35`, `0.035`."""
    digits = 0 if ratio >= 20 else 1 if ratio >= 1 else 2 if ratio >= 0.1 else 3
    return f"{ratio:,.{digits}f}"


def machine() -> dict[str, str]:
    """This machine, as far as it decides the figures."""
    import psutil

    cpu = platform.processor() or platform.machine()
    info = Path("/proc/cpuinfo")
    if info.is_file():
        names = [line.partition(":")[2].strip() for line in info.read_text().splitlines()
                 if line.startswith("model name")]  # fmt: skip
        cpu = names[0] if names else cpu
    return {
        "CPU": cpu,
        "cores": str(len(os.sched_getaffinity(0))),
        "memory": f"{psutil.virtual_memory().total / 2**30:.0f} GiB",
        "load before": f"{os.getloadavg()[0]:.1f}",
        "Python": platform.python_version(),
        "system": f"{platform.system()} {platform.release()}",
        "TensorFlow": _version("tensorflow"),
        "TFX": _version("tfx"),
    }


def _version(package: str) -> str:
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version(package)
    except PackageNotFoundError:
        return "not installed"
