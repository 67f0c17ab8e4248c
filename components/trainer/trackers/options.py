"""Options of the experiment tracker. Credentials come from the environment instead."""

from dataclasses import dataclass

from penstock.components.errors import UsageError
from penstock.components.limits import check_choices
from penstock.components.trainer.trackers.background import redacted

KINDS = ("none", "mlflow")


@dataclass(frozen=True, kw_only=True)
class TrackOptions:
    """Options of a tracker in addition to TensorBoard.

    Attributes:
        kind: `none` or `mlflow` (`pip install 'penstock-tfx[mlflow]'`).
        experiment: Name of MLflow's experiment; created if missing.
        uri: Address of MLflow's server; None uses `MLFLOW_TRACKING_URI`.
        patience_seconds: Maximum seconds that training waits for the tracker to open, and again to
            close; it never waits in between.

    Raises:
        UsageError: A value is outside its range, two do not go together, or the address contains a
            login.
    """

    kind: str = "none"
    experiment: str = "penstock"
    uri: str | None = None
    patience_seconds: float = 30.0

    def __post_init__(self) -> None:
        check_choices(self, kind=KINDS)
        if not self.experiment:
            raise UsageError("track.experiment must not be empty")
        if not self.patience_seconds > 0:
            raise UsageError(
                f"track.patience_seconds must be greater than 0, got {self.patience_seconds}"
            )
        if self.uri is not None and self.kind != "mlflow":
            raise UsageError(f"track.uri is MLflow's, track.kind is {self.kind}")
        if self.uri is not None and redacted(self.uri) != self.uri:
            raise UsageError(
                "track.uri has a login in it, which would be stored with the run: set "
                "MLFLOW_TRACKING_USERNAME and MLFLOW_TRACKING_PASSWORD in the environment"
            )
