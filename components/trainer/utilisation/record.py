"""Time and hardware used by one run, as `utilisation.json` in the ModelRun artifact.

Series are bounded (`series.MAX_POINTS`): the file of a week is as small as that of an hour.
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
    """A GPU over time; sequences belong to `MachineSeries.seconds`."""

    index: int  # NVML's
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
    """Training batches over time, each point a mean of neighbours; all of the same length.

    On a GPU, where the host runs ahead of the device, a batch's time is the mean of its call into
    TensorFlow (0.2 s), and there are no waits.
    """

    step: Sequence[float]  # counted from 1 over the whole training
    # Time from the end of the previous step to the end of this one, with its wait.
    seconds: Sequence[float]
    wait_seconds: Sequence[float]  # part of `seconds`


@dataclass(frozen=True)
class EpochTimes:
    """An epoch of which this run did at least a part; times since the run began."""

    epoch: int
    begin_seconds: float
    trained_seconds: float  # end of its training steps and begin of its evaluation
    end_seconds: float  # the checkpoint follows
    steps: int  # steady steps: all but the first of a run, which is compiled
    step_seconds: float  # wall time of the steady steps, with waits
    wait_seconds: float | None  # part of `step_seconds`; None on a GPU
    cpu_seconds: float  # CPU time of all threads in the steady steps


@dataclass(frozen=True)
class StepLimit:
    """Steps on a batch that is resident on the device: no input can make them faster."""

    calls: Sequence[float]  # mean seconds of a step in each call into TensorFlow
    on_gpu: bool
    # Mean seconds of a step in the run's call before each; empty if all were made after the run.
    run: Sequence[float] = ()

    @property
    def seconds(self) -> float:
        """Median of the calls: other work on the machine makes some longer, none shorter."""
        return statistics.median(self.calls)


@dataclass(frozen=True)
class InputFacts:
    """Facts about the training input, on which advice is based.

    Attributes:
        kind: `rows` (a record is an Example), `images` (the same, of encoded images) or `packed`
            (a record is a block of rows).
        files: Number of shards that this worker reads.
        rows: Number of rows in them; None without a manifest.
        stored_mib: Size of the shards.
        compressed: Whether any shard is compressed.
        columns: Number of features that are parsed, with the label.
        fixed_length: Whether all of them have the same length in every row.
        batch_rows: Rows of a step.
        interleave_files: Largest number of files that are read at the same time.
        prefetch_batches: Largest number of batches that are ready ahead of the step.
        cache: Place of the rows after the first pass: `none` or `memory`.
        private_threads: Number of threads for the input only; None shares TensorFlow's.
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
    cores: float  # within the container's quota
    memory_limit_mib: float  # within the container's limit
    free_memory_mib: float | None  # minimum over all samples
    missed: str | None  # why sampling ended before the run
    machine: MachineSeries
    batches: BatchSeries
    batch_seconds: Durations  # steady steps, with waits
    wait_seconds: Durations  # waits of steady steps for input; empty on a GPU
    epochs: Sequence[EpochTimes]
    input: InputFacts | None  # None if the caller of `train` gave none
    # Steps without an input; None if they could not be measured.
    limit: StepLimit | None = None
    # 0..1, mean over the GPUs; None without a profile or GPU.
    gpu_idle_share: float | None = None
    # 0..1, all processes on all of the machine's cores; None if unknown.
    machine_busy_share: float | None = None
    # That of them without this process and those that it started.
    others_busy_share: float | None = None

    @property
    def wait_share(self) -> float | None:
        """Share of the steady steps' time in which they waited for input; None on a GPU."""
        seconds = sum(epoch.step_seconds for epoch in self.epochs)
        waits = [epoch.wait_seconds for epoch in self.epochs if epoch.wait_seconds is not None]
        return min(1.0, sum(waits) / seconds) if waits and seconds else None

    @property
    def cpu_share(self) -> float | None:
        """Share of `cores` that this process kept busy in its steady steps; None without one."""
        seconds = sum(epoch.step_seconds for epoch in self.epochs)
        return sum(e.cpu_seconds for e in self.epochs) / seconds / self.cores if seconds else None

    @property
    def gpu_busy_share(self) -> float | None:
        """Mean over all GPUs and training phases of the epochs, 0..1; None without a sample."""
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
    """Rounds to six significant digits: a third of the size, and more precise than any clock."""
    if isinstance(value, float):
        return float(f"{value:.6g}")
    if isinstance(value, Mapping):
        return {name: _rounded(part) for name, part in value.items()}
    return [_rounded(part) for part in value] if isinstance(value, list | tuple) else value
