"""Facts of a training: the ModelRun artifact in, plain facts out."""

from collections.abc import Sequence
from dataclasses import dataclass

from penstock.components.errors import DataError
from penstock.components.trainer.record import RECORD_NAME, TrainingRecord, read_training_record
from penstock.components.trainer.utilisation.record import (
    UTILISATION_NAME,
    Utilisation,
    read_utilisation,
)
from penstock.components.trainer.utilisation.verdict import bottleneck
from penstock.pipelines.reporting.artifact_files import names_in

# Of a series of at most a few hundred points: narrow enough to keep what lasts.
_WINDOW = 9


@dataclass(frozen=True)
class Track:
    """Something over time.

    Attributes:
        unit: Its unit, `share of the time`, `GiB`.
        seconds: Time since the run began.
        limit: What there is of it in all; None where there is no limit.
    """

    name: str
    unit: str
    seconds: Sequence[float]
    values: Sequence[float]
    limit: float | None = None

    @property
    def smooth(self) -> list[float]:
        """The running mean over a window of neighbours."""
        half = _WINDOW // 2
        windows = (self.values[max(0, i - half) : i + half + 1] for i in range(len(self.values)))
        return [sum(window) / len(window) for window in windows]

    @property
    def mean(self) -> float:
        """Over all points."""
        return sum(self.values) / len(self.values)


@dataclass(frozen=True)
class TrainingFacts:
    """A training's record, what limits it in a sentence, and utilisation over time if measured."""

    record: TrainingRecord
    bottleneck: str
    tracks: Sequence[Track] = ()

    @property
    def metrics(self) -> list[str]:
        """Loss and then metrics by name, those of the evaluation left out."""
        names = dict.fromkeys(n for e in self.record.epochs for n in e.metrics)
        return sorted((n for n in names if not n.startswith("val_")), key=lambda n: n != "loss")


def gather_training(uri: str) -> TrainingFacts:
    """The facts of a `ModelRun` artifact.

    Raises:
        DataError: It has no record of a training, for another loop than Penstock's trained.
        OSError: The artifact is not there.
    """
    names = names_in(uri)
    if RECORD_NAME not in names:
        raise DataError(
            f"{uri}: no {RECORD_NAME}; another loop than Penstock's trained, or it did not end"
        )
    record = read_training_record(uri)
    used = read_utilisation(uri) if UTILISATION_NAME in names else None
    return TrainingFacts(record, bottleneck(record, used), _tracks(used) if used else ())


def _tracks(used: Utilisation) -> list[Track]:
    machine = used.machine
    at = machine.seconds
    if not at:
        return []
    tracks = [
        Track("CPU of this process", "cores", at, machine.process_cores, used.cores),
        Track(
            "Memory of this process",
            "GiB",
            at,
            [mib / 1024 for mib in machine.memory_mib],
            used.memory_limit_mib / 1024,
        ),
    ]
    for gpu in machine.gpus:
        name = f"GPU {gpu.index} ({gpu.name})"
        memory = [mib / 1024 for mib in gpu.memory_mib]
        busy = [100 * share for share in gpu.busy_share]
        tracks.append(Track(name, "% busy", at, busy, 100.0))
        tracks.append(Track(f"Memory of {name}", "GiB", at, memory, gpu.memory_total_mib / 1024))
    return tracks
