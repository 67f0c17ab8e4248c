"""Training record of a ModelRun artifact, as plain facts."""

from dataclasses import dataclass

from penstock.components.errors import DataError
from penstock.components.trainer.record import RECORD_NAME, TrainingRecord, read_training_record
from penstock.pipelines.reporting.artifact_files import names_in


@dataclass(frozen=True)
class TrainingFacts:
    record: TrainingRecord
    bottleneck: str

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
    return TrainingFacts(record, record.verdict)
