"""A plan to train and judge a model at the start: sizes of data in, options in numbers out."""

import math
from dataclasses import dataclass

from penstock.components import image_features
from penstock.components.tfrecord.feature_kind import FeatureKind
from penstock.pipelines.blocks.target import Target
from penstock.pipelines.starter.columns import ColumnLook
from penstock.pipelines.starter.look import ImagesLook, TableLook

_TRAIN_SHARE = 2 / 3
_CACHED_ROWS, _CACHED_IMAGE_BYTES = 1_000_000, 1 << 30
# The most steps of a first run: minutes, not hours, on a few cores.
_MAX_STEPS_TABLE, _MAX_STEPS_IMAGES = 20_000, 3_000
_EPOCHS = 30
# Of small data an epoch is several passes: its end is a judgement of the model, which costs time.
_MIN_STEPS_PER_EPOCH = 20
# A model that says the same of each row has an AUC of 0.5; 0.55 is one that learned something.
_MIN_AUC = 0.55
_MAX_SLICE_VALUES, _MAX_SLICES = 12, 2


@dataclass(frozen=True)
class Plan:
    """The numbers of a starter's config, and its words.

    Attributes:
        summary: What the model predicts from what.
        train_rows: Rows of the training split, about.
        batch_size: Rows a step.
        steps_per_epoch: Steps of a pass.
        max_steps: Steps in all.
        cache: Of the training input.
        thresholds: Metrics that a model must reach.
        max_worsening: Most by which they may be worse than those of the model before.
        slices: Raw features by whose values they are given as well.
        filters: Of the small network of images.
    """

    summary: str
    train_rows: int
    batch_size: int
    steps_per_epoch: int
    max_steps: int
    cache: str
    thresholds: dict[str, float]
    max_worsening: dict[str, float]
    slices: tuple[str, ...]
    filters: tuple[int, ...] = ()

    @property
    def epochs(self) -> int:
        """Passes over the training rows, at most."""
        return math.ceil(self.max_steps * self.batch_size / self.train_rows)


def plan_table(look: TableLook, data_name: str) -> Plan:
    """The plan of a table."""
    roles, columns = look.roles, {column.name: column for column in look.columns}
    train_rows = max(1, int(look.rows * _TRAIN_SHARE))
    batch_size = 32 if train_rows < 3_000 else 128 if train_rows < 30_000 else 512
    steps = max(_MIN_STEPS_PER_EPOCH, train_rows // batch_size)
    thresholds, worsening = {}, {}
    for target in roles.targets:
        prefix = f"{target.name}/" if len(roles.targets) > 1 else ""
        metric, bound, worse = _bounds(target, columns[target.name])
        thresholds[prefix + metric], worsening[prefix + metric] = bound, worse
    sliced = [
        name
        for name in (*roles.booleans, *roles.categories)
        if columns[name].distinct <= _MAX_SLICE_VALUES
    ]
    what = ", ".join(target.name for target in roles.targets)
    return Plan(
        summary=f"Predicts {what} from {roles.features} columns of {data_name}.",
        train_rows=train_rows,
        batch_size=batch_size,
        steps_per_epoch=steps,
        max_steps=min(_EPOCHS * steps, max(_MAX_STEPS_TABLE, steps)),
        cache="memory" if train_rows <= _CACHED_ROWS else "none",
        thresholds=thresholds,
        max_worsening=worsening,
        slices=tuple(sliced[:_MAX_SLICES]),
    )


def _bounds(target: Target, column: ColumnLook) -> tuple[str, float, float]:
    """The deciding metric, its bound, and by how much it may get worse."""
    if target.task == "binary":
        return "AUC", _MIN_AUC, 0.02
    if target.task == "classes":
        return "SparseCategoricalAccuracy", _majority(column.counts[0][1], column.rows), 0.02
    deviation = float(f"{column.deviation:.3g}")
    return "RootMeanSquaredError", deviation, float(f"{0.05 * column.deviation:.2g}")


def _majority(most: int, rows: int) -> float:
    """The share of the most frequent class, less what chance takes from it in the eval split."""
    share = most / rows
    # Two standard errors: else the draw of the rows refuses models that beat the constant.
    chance = 2 * math.sqrt(share * (1 - share) / (rows * (1 - _TRAIN_SHARE)))
    return max(0, math.floor(100 * (share - chance))) / 100


def plan_images(look: ImagesLook, data_name: str) -> Plan:
    """The plan of images."""
    train_rows = max(1, int(look.rows * _TRAIN_SHARE))
    batch_size = 32
    steps = max(_MIN_STEPS_PER_EPOCH, train_rows // batch_size)
    # Each stage halves the image, down to about 4 pixels.
    stages = max(1, round(math.log2(look.side / 4)))
    decoded = train_rows * look.side**2 * look.channels
    return Plan(
        summary=f"Predicts which of {len(look.classes)} classes an image of {data_name} is of.",
        train_rows=train_rows,
        batch_size=batch_size,
        steps_per_epoch=steps,
        max_steps=min(_EPOCHS * steps, max(_MAX_STEPS_IMAGES, steps)),
        cache="memory" if decoded <= _CACHED_IMAGE_BYTES else "none",
        thresholds={"SparseCategoricalAccuracy": _majority(max(look.classes.values()), look.rows)},
        max_worsening={"SparseCategoricalAccuracy": 0.02},
        slices=(image_features.TEXT,) if look.has_words else (),
        filters=(16, 32, 64, 96, 128)[:stages],
    )


def example_request(look: TableLook | ImagesLook) -> dict[str, object]:
    """What TensorFlow Serving's REST interface is sent: a row of the most frequent values."""
    from penstock.components.trainer.served_columns import SERVE_COLUMNS, SERVE_IMAGES, column_name

    if isinstance(look, ImagesLook):
        return {"signature_name": SERVE_IMAGES, "instances": [{"encoded": {"b64": "..."}}]}
    roles = look.roles
    used = {*roles.numbers, *roles.booleans, *roles.dates, *roles.categories}
    inputs: dict[str, list[object]] = {}
    for column in look.columns:
        if column.name in used:
            value = column.counts[0][0]
            if isinstance(value, bytes):
                value = value.decode(errors="replace")
            elif column.kind is FeatureKind.FLOAT:
                value = float(f"{value:.6g}")
            inputs[column_name(column.name)] = [value]
    return {"signature_name": SERVE_COLUMNS, "inputs": inputs}
