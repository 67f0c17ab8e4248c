"""Time and hardware used by a run, as `utilisation.json` in the ModelRun artifact.

All of it is of one run: a training that was resumed has a record of each of its runs. Series are
bounded (`bounded_series.MAX_POINTS`), so that the file of a week is as small as that of an hour.
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
from penstock.components.trainer.utilisation.durations import Durations

UTILISATION_NAME = "utilisation.json"
UTILISATION_VERSION = 3


@dataclass(frozen=True)
class GpuSeries:
    """One GPU over time; `busy_share` and `memory_mib` belong to `MachineSeries.seconds`.

    Attributes:
        index: NVML's number.
        name: What NVIDIA calls it.
        memory_total_mib: Its memory.
        busy_share: Share of the time in which a kernel ran, 0..1.
        memory_mib: Memory in use, by all processes.
    """

    index: int
    name: str
    memory_total_mib: float
    busy_share: Sequence[float]
    memory_mib: Sequence[float]


@dataclass(frozen=True)
class MachineSeries:
    """The machine over time; all sequences have one length.

    Attributes:
        seconds: Time since the run began.
        process_cores: Cores that this process kept busy, 0..cores of the machine.
        memory_mib: Memory that this process holds (resident).
        gpus: The GPUs that this process sees.
    """

    seconds: Sequence[float]
    process_cores: Sequence[float]
    memory_mib: Sequence[float]
    gpus: Sequence[GpuSeries]


@dataclass(frozen=True)
class BatchSeries:
    """Training batches over time, a point the mean of neighbours; one length.

    On a GPU, where the host runs ahead of the device, a batch's time is the mean of its call
    into TensorFlow (0.2 s), and there are no waits.

    Attributes:
        step: Number of the step, from 1 over the whole training.
        seconds: From the end of the step before to the end of this one, its wait included.
        wait_seconds: The part of it in which the step waited for its batch.
    """

    step: Sequence[float]
    seconds: Sequence[float]
    wait_seconds: Sequence[float]


@dataclass(frozen=True)
class EpochTimes:
    """One epoch that this run did at least a part of.

    Attributes:
        epoch: Its number, counted from 1.
        begin_seconds: Time since the run began.
        trained_seconds: The same, when its training steps were over and evaluation began.
        end_seconds: The same, at its end; the checkpoint follows.
        steps: Its steady steps: all but the first of a run, which is compiled.
        step_seconds: Wall time of these, waits included.
        wait_seconds: The part of it in which they waited for input; None on a GPU.
        cpu_seconds: CPU time of this process in it, over all threads.
    """

    epoch: int
    begin_seconds: float
    trained_seconds: float
    end_seconds: float
    steps: int
    step_seconds: float
    wait_seconds: float | None
    cpu_seconds: float


@dataclass(frozen=True)
class StepLimit:
    """Steps on one batch that already lies on the device: no input can make them faster.

    Attributes:
        calls: Mean seconds of a step, of each call into TensorFlow.
        on_gpu: Whether the device is a GPU, else the CPU.
    """

    calls: Sequence[float]
    on_gpu: bool

    @property
    def seconds(self) -> float:
        """Their median: other work on the machine makes some calls longer, none shorter."""
        return statistics.median(self.calls)


@dataclass(frozen=True)
class InputFacts:
    """What the training input reads, and how: the evidence behind advice.

    Attributes:
        kind: `rows` (a record is an Example), `images` (the same, of encoded images) or `packed`
            (a record is a block of rows).
        files: Shards that this worker reads.
        rows: Rows in them; None where no manifest says so.
        stored_mib: Their size.
        compressed: Whether any is.
        columns: Features that are parsed, the label included.
        fixed_length: Whether all of them have one length in every row.
        batch_rows: Rows a step.
        interleave_files: Files that are read at the same time, at most.
        prefetch_batches: Batches that wait, ready, for the step, at most.
        cache: Where the rows are kept after the first pass: `none` or `memory`.
        private_threads: Threads for the input alone; None shares TensorFlow's.
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
    """Time and hardware of one run.

    Attributes:
        cores: Cores that the process may use, the container's quota counted.
        memory_limit_mib: Memory that it may hold, the container's limit counted.
        free_memory_mib: The least that was free at any look; None without a look.
        missed: Why looking ended before the run did; None where it did not.
        machine: Cores, memory and GPUs over time.
        batches: Batches over time.
        batch_seconds: How long the steady steps took, waits included.
        wait_seconds: How long they waited for input; nothing on a GPU.
        epochs: The epochs of this run.
        input: What was read; None where the caller of `train` did not say.
        limit: The same steps without an input; None where that could not be measured.
        gpu_idle_share: Share of the time in which no kernel ran, mean over the GPUs, 0..1, by a
            profile; None where none was taken, or there is no GPU.
    """

    cores: float
    memory_limit_mib: float
    free_memory_mib: float | None
    missed: str | None
    machine: MachineSeries
    batches: BatchSeries
    batch_seconds: Durations
    wait_seconds: Durations
    epochs: Sequence[EpochTimes]
    input: InputFacts | None
    limit: StepLimit | None = None
    gpu_idle_share: float | None = None

    @property
    def cpu_share(self) -> float | None:
        """Share of `cores` that this process kept busy in its steady steps; None without one."""
        seconds = sum(epoch.step_seconds for epoch in self.epochs)
        return sum(e.cpu_seconds for e in self.epochs) / seconds / self.cores if seconds else None

    @property
    def gpu_busy_share(self) -> float | None:
        """Mean over all GPUs and the epochs' training phases, 0..1; None without a reading."""
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
        """The text of `utilisation.json`: the attributes by name, a line each."""
        fields = {"version": UTILISATION_VERSION, **asdict(self)}
        lines = (f"{json.dumps(k)}: {json.dumps(_rounded(v))}" for k, v in fields.items())
        return "{\n" + ",\n".join(lines) + "\n}\n"

    @classmethod
    def from_json(cls, text: str, path: str) -> "Utilisation":
        """Parse the text of a record at `path`; DataError if it is none of this version."""
        try:
            raw = json.loads(text)
            if raw.pop("version") != UTILISATION_VERSION:
                raise DataError(f"{path}: a utilisation record of another version; train again")
            return from_record(cls, raw)
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise DataError(f"{path}: not a utilisation record ({error!r})") from error


def write_utilisation(directory: str | os.PathLike[str], record: Utilisation) -> None:
    """Write `utilisation.json` into `directory` in one step."""
    write_record(posixpath.join(os.fspath(directory), UTILISATION_NAME), record.to_json())


def read_utilisation(directory: str | os.PathLike[str]) -> Utilisation:
    """Read the `utilisation.json` of a ModelRun; DataError if it cannot be read."""
    path = posixpath.join(os.fspath(directory), UTILISATION_NAME)
    return Utilisation.from_json(read_record(path), path)


def _rounded(value: Any) -> Any:
    """Six significant digits: a third of the size, and more than any clock has."""
    if isinstance(value, float):
        return float(f"{value:.6g}")
    if isinstance(value, Mapping):
        return {name: _rounded(part) for name, part in value.items()}
    return [_rounded(part) for part in value] if isinstance(value, list | tuple) else value
