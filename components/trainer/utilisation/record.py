"""Time and hardware used by one run, as `utilisation.json` in the ModelRun artifact.

Series are bounded (`series.MAX_POINTS`): the file of a week is as small as the file of an hour.
"""

import json
import os
import posixpath
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from penstock.components.errors import DataError
from penstock.components.plain import from_record
from penstock.components.trainer.record import read_record, write_record
from penstock.components.trainer.utilisation.series import Durations

UTILISATION_NAME = "utilisation.json"
UTILISATION_VERSION = 3


@dataclass(frozen=True)
class GpuSeries:
    """A GPU over time; its points belong to the times in `MachineSeries.seconds`."""

    index: int  # NVML's index
    name: str
    memory_total_mib: float
    busy_share: Sequence[float]  # 0..1, share of time with a running kernel
    memory_mib: Sequence[float]  # memory in use by all processes


@dataclass(frozen=True)
class MachineSeries:
    """The machine over time; all sequences have the same length."""

    seconds: Sequence[float]
    process_cores: Sequence[float]  # cores that this process kept busy
    memory_mib: Sequence[float]  # resident memory of this process
    gpus: Sequence[GpuSeries]


@dataclass(frozen=True)
class BatchSeries:
    """Training batches over time, each point a mean of neighbours; all have the same length.

    On a GPU the host runs ahead of the device, so a batch's time is the mean over its call into
    TensorFlow (0.2 s), and no waits are recorded.
    """

    step: Sequence[float]  # step number, from 1, over the whole training
    # From the end of the previous step to the end of this one, including the wait for its batch.
    seconds: Sequence[float]
    wait_seconds: Sequence[float]  # part of `seconds`


@dataclass(frozen=True)
class EpochTimes:
    """An epoch that this run did, or a part of it; times in seconds since the run began."""

    epoch: int
    begin_seconds: float
    trained_seconds: float  # when its training steps end and its evaluation begins
    end_seconds: float  # when the epoch ends; the checkpoint comes after
    steps: int  # number of steady steps: all but the run's first, which is compiled
    step_seconds: float  # wall time of the steady steps, with waits
    wait_seconds: float | None  # part of `step_seconds`; None on a GPU
    cpu_seconds: float  # CPU time of all threads in the steady steps


@dataclass(frozen=True)
class StepLimit:
    """Times of steps on a batch that stays on the device: no input could make them faster."""

    calls: Sequence[float]  # mean seconds per step of each call into TensorFlow
    on_gpu: bool
    # Mean seconds per step of the run's call before each of `calls`; empty if the run had ended.
    run: Sequence[float] = ()

    @property
    def seconds(self) -> float:
        """Median of the calls: other work on the machine makes some longer, but none shorter."""
        return statistics.median(self.calls)


@dataclass(frozen=True)
class InputFacts:
    """Facts about the training input, on which advice is based.

    Attributes:
        kind: `rows` (a record is an Example), `images` (an Example with an encoded image) or
            `packed` (a record is a block of rows).
        files: Number of shards that this worker reads.
        rows: Number of rows in these files; None without a manifest.
        stored_mib: Size of the shards, in MiB.
        compressed: Whether any shard is compressed.
        columns: Number of features that are parsed, label included.
        fixed_length: Whether each feature has the same length in every row.
        batch_rows: Number of rows per step.
        interleave_files: Maximum number of files that are read at the same time.
        prefetch_batches: Maximum number of batches that wait for the step.
        cache: Where rows are kept after the first pass: `none` or `memory`.
        private_threads: Number of threads for the input alone; None shares TensorFlow's.
    """

    kind: str
    files: int
    rows: int | None
    stored_mib: float
    compressed: bool
    columns: int
    fixed_length: bool
    batch_rows: int
    interleave_files: int
    prefetch_batches: int
    cache: str
    private_threads: int | None


@dataclass(frozen=True)
class Utilisation:
    cores: float  # cores of the machine, capped by the container's quota
    memory_limit_mib: float  # memory of the machine, capped by the container's limit
    free_memory_mib: float | None  # minimum over all samples
    missed: str | None  # why sampling ended before the run did
    machine: MachineSeries
    batches: BatchSeries
    batch_seconds: Durations  # durations of steady steps, waits included
    wait_seconds: Durations  # waits of steady steps for input; empty on a GPU
    epochs: Sequence[EpochTimes]
    input: InputFacts | None  # None if the caller of `train` passed none
    # Steps without an input; None if they could not be measured.
    limit: StepLimit | None = None
    # 0..1, mean over the GPUs; None without a profile or GPU.
    gpu_idle_share: float | None = None
    # Share of the machine's cores that all processes kept busy, 0..1; None if unknown.
    machine_busy_share: float | None = None
    # The same share without this process and its child processes.
    others_busy_share: float | None = None

    @property
    def wait_share(self) -> float | None:
        """Share of the time of steady steps spent waiting for input; None on a GPU."""
        seconds = sum(epoch.step_seconds for epoch in self.epochs)
        waits = [epoch.wait_seconds for epoch in self.epochs if epoch.wait_seconds is not None]
        return min(1.0, sum(waits) / seconds) if waits and seconds else None

    @property
    def cpu_share(self) -> float | None:
        """Share of `cores` that this process kept busy in its steady steps; None without steps."""
        seconds = sum(epoch.step_seconds for epoch in self.epochs)
        return sum(e.cpu_seconds for e in self.epochs) / seconds / self.cores if seconds else None

    @property
    def gpu_busy_share(self) -> float | None:
        """Mean over all GPUs and the training phases of all epochs, 0..1; None without a sample."""
        inside = [
            any(e.begin_seconds <= second <= e.trained_seconds for e in self.epochs)
            for second in self.machine.seconds
        ]
        shares = [
            share
            for gpu in self.machine.gpus
            for share, counts in zip(gpu.busy_share, inside, strict=True)
            if counts
        ]
        return sum(shares) / len(shares) if shares else None

    def to_json(self) -> str:
        fields = {"version": UTILISATION_VERSION, **asdict(self)}
        lines = (f"{json.dumps(k)}: {json.dumps(_rounded(v))}" for k, v in fields.items())
        return "{\n" + ",\n".join(lines) + "\n}\n"

    @classmethod
    def from_json(cls, text: str, path: str) -> "Utilisation":
        try:
            raw = json.loads(text)
            if raw.pop("version") != UTILISATION_VERSION:
                raise DataError(f"{path}: a utilisation record of another version; train again")
            return from_record(cls, raw)
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise DataError(f"{path}: not a utilisation record ({error!r})") from error


def write_utilisation(directory: str | os.PathLike[str], record: Utilisation) -> None:
    write_record(posixpath.join(os.fspath(directory), UTILISATION_NAME), record.to_json())


def read_utilisation(directory: str | os.PathLike[str]) -> Utilisation:
    path = posixpath.join(os.fspath(directory), UTILISATION_NAME)
    return Utilisation.from_json(read_record(path), path)


def _rounded(value: Any) -> Any:
    """Rounds to six significant digits: a third of the size, yet more precise than any clock."""
    if isinstance(value, float):
        return float(f"{value:.6g}")
    if isinstance(value, Mapping):
        return {name: _rounded(part) for name, part in value.items()}
    return [_rounded(part) for part in value] if isinstance(value, list | tuple) else value
