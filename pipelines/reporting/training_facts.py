"""Training record and utilisation of a ModelRun artifact, as plain facts."""

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

# Width of the window as a share of a series: so narrow that longer phases stay visible.
_WINDOW = 9


@dataclass(frozen=True)
class Track:
    """A measured quantity over time.

    Attributes:
        limit: Capacity of the machine; None without a limit.
    """

    name: str
    unit: str
    seconds: Sequence[float]
    values: Sequence[float]
    limit: float | None = None

    @property
    def smooth(self) -> list[float]:
        """Returns the running mean over a window of neighbours."""
        half = _WINDOW // 2
        windows = (self.values[max(0, i - half) : i + half + 1] for i in range(len(self.values)))
        return [sum(window) / len(window) for window in windows]

    @property
    def mean(self) -> float:
        return sum(self.values) / len(self.values)


@dataclass(frozen=True)
class TrainingFacts:
    record: TrainingRecord
    bottleneck: str
    tracks: Sequence[Track] = ()

    @property
    def metrics(self) -> list[str]:
        names = dict.fromkeys(n for e in self.record.epochs for n in e.metrics)
        return sorted((n for n in names if not n.startswith("val_")), key=lambda n: n != "loss")


def gather_training(uri: str) -> TrainingFacts:
    """Gathers the facts of a `ModelRun` artifact."""
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
