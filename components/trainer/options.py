"""Options of training: its length, early stop, checkpoints and precision."""

from dataclasses import dataclass

from penstock.components.errors import UsageError
from penstock.components.limits import check_choices, check_numbers

MODES = ("min", "max")
SCHEDULES = ("none", "cosine")
PRECISIONS = ("none", "auto", "bfloat16", "float16")


@dataclass(frozen=True, kw_only=True)
class EarlyStop:
    """Stops when a metric stops improving, and keeps the weights of its best epoch.

    Attributes:
        metric: Name of the metric in `EpochRecord.metrics`; evaluation metrics begin with `val_`.
        mode: `min` if lower is better, `max` if higher is.
        patience_epochs: Number of epochs without improvement after which training stops.
        min_delta: Minimum improvement that counts; 0 or more.

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
    """Options of `train`. An epoch is `steps_per_epoch` steps, whatever the size of the data.

    Attributes:
        max_steps: Total number of steps; give either this or `epochs`.
        epochs: Total number of epochs.
        steps_per_epoch: Steps between two evaluations; None makes all of `max_steps` one epoch.
        eval_steps: Number of batches that an evaluation reads; None reads all.
        early_stop: When to stop before the end; None never does.
        checkpoint_every_steps: Steps between checkpoints, in addition to the one at the end of each
            epoch; 0 saves only those.
        keep_checkpoints: Number of checkpoints to keep, at least 2, so that training can resume
            if the newest is damaged.
        mixed_precision: Precision of computation; weights keep 32 bits. `bfloat16` has float32's
            range. `float16`, for GPUs before compute capability 8.0, needs its loss scaled, for
            which Keras wraps the optimizer. `auto` chooses by the GPU. `none`, like `auto` without
            a GPU, computes in 32 bits.
        learning_rate_schedule: `cosine` lowers the optimizer's learning rate to 0 at the last
            step, along half a cosine; `none` keeps it constant.
        warmup_steps: Number of first updates, during which the learning rate rises from 0.
        gradient_accumulation_steps: Number of steps whose gradients are averaged to one update, as
            if a batch were that many times larger; one device only.
        ema_momentum: Evaluate and export a moving average of the weights, which keeps this share
            of itself at each step, 0.99 to 0.9999; None uses the weights themselves.
        xla: Compile the training step with XLA. It costs seconds at the start, and all inputs of
            the step must be numbers.
        steps_per_execution: Number of steps in one call into TensorFlow; None lets calls grow to
            0.2 s. Signals and losses that are not finite are noticed at the end of a call.
        prefetch_to_device: Copy the next batches to the device while it works; all inputs must be
            numbers. None does so on a GPU if they are. Several GPUs always do.
        gpu_memory_growth: Take GPU memory as needed, which leaves some to other processes; False
            takes all of it at once, as TensorFlow does by default.
        collective_timeout_seconds: If no call ends for this time, a worker of several exits with
            code 138, since another worker hangs. The first call includes compilation.
        profile_steps: Number of extra steps to run under TensorFlow's profiler after the last
            epoch, for TensorBoard and the GPUs' idle share; 0 takes no profile. The weights do not
            change.

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
    # On a CPU, each of these slows short steps down; wide layers gain from bfloat16 if the CPU has
    # AMX (`penstock bench gpu`).
    mixed_precision: str = "none"
    learning_rate_schedule: str = "none"
    warmup_steps: int = 0
    gradient_accumulation_steps: int = 1
    ema_momentum: float | None = None
    xla: bool = False
    steps_per_execution: int | None = None
    # Neither was run on a GPU yet. By estimate, an unpinned copy takes 4 to 27 % of a step.
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
