"""Options of training: how long, when to stop, how often to save, in what arithmetic."""

from dataclasses import dataclass

from penstock.components.errors import UsageError
from penstock.components.limits import check_choices, check_numbers

MODES = ("min", "max")
SCHEDULES = ("none", "cosine")
PRECISIONS = ("none", "auto", "bfloat16", "float16")


@dataclass(frozen=True, kw_only=True)
class EarlyStop:
    """Stop when a metric stops improving, and keep the weights of its best epoch.

    Attributes:
        metric: Its name in `EpochRecord.metrics`; those of the evaluation begin with `val_`.
        mode: `min` where less is better, `max` where more is.
        patience_epochs: Epochs without improvement after which training stops.
        min_delta: Smallest improvement that counts; 0 or more.

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
    """Options of `train`. An epoch is `steps_per_epoch` steps, whatever the data's size.

    Attributes:
        max_steps: Steps in all; give either this or `epochs`.
        epochs: Epochs in all.
        steps_per_epoch: Steps between two evaluations; None makes all of `max_steps` one epoch.
        eval_steps: Batches an evaluation reads; None reads all.
        early_stop: When to stop before the end; None never does.
        checkpoint_every_steps: Steps between checkpoints besides the one at the end of each
            epoch; 0 leaves it at those.
        keep_checkpoints: Checkpoints that are kept, at least 2, so that a damaged one has
            another behind it.
        mixed_precision: Compute in 16 bits, keep weights in 32: `bfloat16` has float32's range;
            `float16`, for GPUs before compute capability 8.0, needs its loss scaled, which
            Keras does by an optimizer of its own; `auto` chooses by the GPU, and computes in 32
            bits without one, as `none` does.
        learning_rate_schedule: `cosine` brings the optimizer's learning rate down to 0 at the last
            step, by half a cosine; `none` leaves it.
        warmup_steps: Updates over which it comes up from 0 before.
        gradient_accumulation_steps: Steps whose gradients are averaged to one update, as if a
            batch were so many times larger; one device only.
        ema_momentum: Evaluate and export the moving average of the weights, which keeps this share
            of itself at each step, 0.99 to 0.9999; None takes the weights themselves.
        xla: Compile the training step with XLA; costs seconds at the start, and the step's
            inputs must all be numbers.
        steps_per_execution: Steps in one call into TensorFlow; None lets calls grow to 0.2 s.
            Signals and losses that are not finite are seen at the end of a call.
        prefetch_to_device: Copy the next batches to the device while it works; inputs must all be
            numbers. None does so on a GPU if they are. Several GPUs always do.
        gpu_memory_growth: Take the GPUs' memory as it is needed, so that other processes find
            some; False takes all of it at once, as TensorFlow does by default.
        collective_timeout_seconds: Seconds without a finished call after which a worker of several
            ends with exit code 138, since another hangs; the first call compiles the model.
        profile_steps: Steps that run once more after the last epoch under TensorFlow's profiler,
            for TensorBoard and for the GPUs' idle share; 0 takes no profile. The weights stay.

    Raises:
        UsageError: A value is outside its range, or two do not go together.
    """

    max_steps: int | None = None
    epochs: int | None = None
    steps_per_epoch: int | None = None
    eval_steps: int | None = None
    early_stop: EarlyStop | None = None
    checkpoint_every_steps: int = 0
    keep_checkpoints: int = 2
    # On a CPU short steps lose by each of these; wide layers gain from bfloat16 where it has AMX
    # (`penstock bench gpu`).
    mixed_precision: str = "none"
    learning_rate_schedule: str = "none"
    warmup_steps: int = 0
    gradient_accumulation_steps: int = 1
    ema_momentum: float | None = None
    xla: bool = False
    steps_per_execution: int | None = None
    # Neither has run on a GPU: by reading, an unpinned copy in time costs 4 to 27 % of a step.
    prefetch_to_device: bool | None = None
    gpu_memory_growth: bool = True
    collective_timeout_seconds: float = 1800.0
    profile_steps: int = 0

    def __post_init__(self) -> None:
        check_numbers(
            self, max_steps=1, epochs=1, steps_per_epoch=1, eval_steps=1, steps_per_execution=1,
            checkpoint_every_steps=0, keep_checkpoints=2, warmup_steps=0,
            gradient_accumulation_steps=1, profile_steps=0,
        )  # fmt: skip
        if not self.collective_timeout_seconds > 0:
            raise UsageError(
                "collective_timeout_seconds must be greater than 0, got "
                f"{self.collective_timeout_seconds}"
            )
        check_choices(self, mixed_precision=PRECISIONS, learning_rate_schedule=SCHEDULES)
        if self.ema_momentum is not None and not 0 < self.ema_momentum < 1:
            raise UsageError(f"ema_momentum must be between 0 and 1, got {self.ema_momentum}")
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
