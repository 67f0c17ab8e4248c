"""Options of training: its length, early stop and checkpoints."""

from dataclasses import dataclass

from penstock.components.errors import UsageError
from penstock.components.limits import check_choices, check_numbers

MODES = ("min", "max")


@dataclass(frozen=True, kw_only=True)
class EarlyStop:
    """Stops when a metric stops improving, and keeps the weights of its best epoch.

    Attributes:
        metric: Name of the metric in `EpochRecord.metrics`; evaluation metrics begin with `val_`.
        mode: `min` if lower is better, `max` if higher is.
        patience_epochs: Number of epochs without improvement after which training stops.
        min_delta: Only an improvement of the metric by more than this counts; 0 or more.

    Raises:
        UsageError: A value is outside its range.
    """

    metric: str = "val_loss"
    mode: str = "min"
    patience_epochs: int = 3
    min_delta: float = 0.0

    def __post_init__(self) -> None:
        check_choices(self, mode=MODES)
        check_numbers(self, patience_epochs=1, min_delta=0.0)


@dataclass(frozen=True, kw_only=True)
class TrainOptions:
    """Options of `train`. An epoch is `steps_per_epoch` steps, regardless of the size of the data.

    The optimizer, the loss and `jit_compile` are arguments of `model.compile`.

    Attributes:
        max_steps: Total number of steps; set either this or `epochs`.
        epochs: Total number of epochs.
        steps_per_epoch: Steps between two evaluations; None makes all of `max_steps` one epoch.
        eval_steps: Number of batches that an evaluation reads; None reads all.
        early_stop: Condition for stopping before the end; None never stops early.
        checkpoint_every_steps: Number of steps from one checkpoint to the next; 0 turns these
            checkpoints off. Checkpoints by time and at the end of each epoch are saved in addition.
        checkpoint_every_seconds: Maximum seconds between checkpoints while steps run.
        collective_timeout_seconds: Maximum seconds for a call that runs steps on several workers. A
            worker that waits longer exits with code 138, because another worker hangs. The first
            call includes compilation.

    Raises:
        UsageError: A value is outside its range, both or neither of `max_steps` and `epochs` are
            given, or `epochs` is given without `steps_per_epoch`.
    """

    max_steps: int | None = None
    epochs: int | None = None
    steps_per_epoch: int | None = None
    eval_steps: int | None = None
    early_stop: EarlyStop | None = None
    checkpoint_every_steps: int = 0
    checkpoint_every_seconds: float = 300.0
    collective_timeout_seconds: float = 1800.0

    def __post_init__(self) -> None:
        check_numbers(
            self, max_steps=1, epochs=1, steps_per_epoch=1, eval_steps=1, checkpoint_every_steps=0
        )
        for name in ("checkpoint_every_seconds", "collective_timeout_seconds"):
            if not getattr(self, name) > 0:
                raise UsageError(f"{name} must be greater than 0, got {getattr(self, name)}")
        if (self.max_steps is None) == (self.epochs is None):
            raise UsageError(
                f"give either max_steps or epochs, got max_steps={self.max_steps} "
                f"and epochs={self.epochs}"
            )
        if self.epochs is not None and self.steps_per_epoch is None:
            raise UsageError("epochs needs steps_per_epoch; Input.steps_per_epoch() counts it")

    @property
    def total_steps(self) -> int:
        if self.max_steps is not None:
            return self.max_steps
        assert self.epochs is not None
        assert self.steps_per_epoch is not None
        return self.epochs * self.steps_per_epoch

    @property
    def epoch_steps(self) -> int:
        return min(self.steps_per_epoch or self.total_steps, self.total_steps)
