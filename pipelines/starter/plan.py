"""Computes the numbers of a first config from properties and sizes of the data."""

import math
from dataclasses import dataclass

import numpy as np

from penstock.components import image_features
from penstock.components.tfrecord.feature_kind import FeatureKind
from penstock.pipelines.blocks.facts import label_facts
from penstock.pipelines.blocks.target import Target
from penstock.pipelines.starter.columns import ColumnLook
from penstock.pipelines.starter.look import ImagesLook, TableLook

_TRAIN_SHARE = 2 / 3
_CACHED_ROWS, _CACHED_IMAGE_BYTES = 1_000_000, 1 << 30
# Maximum number of steps of a first run, unless one epoch has more; a run of so many steps takes
# minutes on a few cores.
_MAX_STEPS_TABLE, _MAX_STEPS_IMAGES = 20_000, 3_000
_EPOCHS = 30
# On small data an epoch is several passes, because the evaluation after each epoch costs time.
_MIN_STEPS_PER_EPOCH = 20
# Maximum of the AUC threshold. The threshold is 0.5, the AUC of a constant, plus two standard
# errors, which are large for few rows; a useful model has an AUC over 0.6.
_MAX_CHANCE_AUC = 0.6
_MAX_SLICE_VALUES, _MAX_SLICES = 12, 2


@dataclass(frozen=True)
class Plan:
    """Numbers and texts of a starter's config."""

    summary: str
    # Estimated number of training rows, without the rows that lack a target
    train_rows: int
    batch_size: int
    steps_per_epoch: int
    max_steps: int
    cache: str
    # Bounds by metric, in the form of `EvaluationOptions`
    thresholds: dict[str, float]
    max_worsening: dict[str, float]
    # Raw features whose values define slices
    slices: tuple[str, ...]
    filters: tuple[int, ...] = ()

    @property
    def epochs(self) -> int:
        """Maximum number of passes over the training rows."""
        return math.ceil(self.max_steps * self.batch_size / self.train_rows)


def plan_table(look: TableLook, data_name: str) -> Plan:
    roles, columns = look.roles, {column.name: column for column in look.columns}
    with_targets = 1 - sum(look.gaps.values()) / columns[roles.targets[0].name].rows
    train_rows = max(1, int(look.rows * with_targets * _TRAIN_SHARE))
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
        summary=f"Predicts {what} from {len(roles.used)} columns of {data_name}.",
        train_rows=train_rows,
        batch_size=batch_size,
        steps_per_epoch=steps,
        max_steps=min(_EPOCHS * steps, max(_MAX_STEPS_TABLE, steps)),
        cache="memory" if train_rows <= _CACHED_ROWS else "none",
        thresholds=thresholds,
        max_worsening=worsening,
        slices=tuple(sliced[:_MAX_SLICES]),
    )


def _bounds(target: Target, look: ColumnLook) -> tuple[str, float, float]:
    """Returns a metric, its threshold, and the largest worsening that is allowed.

    The threshold is just better than the value that the best constant reaches on the sample or, for
    AUC, two standard errors better but at most `_MAX_CHANCE_AUC`.
    """
    values, counts = zip(*look.counts, strict=True)
    labels = [target.classes.index(name) for name in look.class_names] if target.classes else values
    facts = label_facts([np.repeat(labels, counts)], target)
    if target.task == "regression":
        deviation = facts.deviation * (1 - 1e-4)
        return "RootMeanSquaredError", float(f"{deviation:.6g}"), float(f"{0.05 * deviation:.2g}")
    if target.task == "classes":
        share = (max(facts.class_counts) + 0.5) / facts.rows
        return "SparseCategoricalAccuracy", float(f"{share:.6g}"), 0.02
    no, yes = (count * (1 - _TRAIN_SHARE) for count in facts.class_counts)
    # The threshold is two standard errors above the AUC of a random ranking of the evaluation rows.
    chance = 0.5 + 2 * math.sqrt((no + yes + 1) / (12 * no * yes))
    return "AUC", float(f"{min(chance, _MAX_CHANCE_AUC):.3g}"), 0.02


def plan_images(look: ImagesLook, data_name: str) -> Plan:
    train_rows = max(1, int(look.rows * _TRAIN_SHARE))
    batch_size = 32
    steps = max(_MIN_STEPS_PER_EPOCH, train_rows // batch_size)
    # Each stage halves the sides of the image, down to about 4 pixels.
    stages = max(1, round(math.log2(look.side / 4)))
    decoded = train_rows * look.side**2 * look.channels
    # The threshold is just above the share of the most frequent class, which is the accuracy of a
    # constant prediction.
    constant = (max(look.classes.values()) + 0.5) / look.rows
    return Plan(
        summary=f"Predicts which of {len(look.classes)} classes an image of {data_name} is of.",
        train_rows=train_rows,
        batch_size=batch_size,
        steps_per_epoch=steps,
        max_steps=min(_EPOCHS * steps, max(_MAX_STEPS_IMAGES, steps)),
        cache="memory" if decoded <= _CACHED_IMAGE_BYTES else "none",
        thresholds={"SparseCategoricalAccuracy": float(f"{constant:.6g}")},
        max_worsening={"SparseCategoricalAccuracy": 0.02},
        slices=(image_features.TEXT,) if look.has_words else (),
        filters=(16, 32, 64, 96, 128)[:stages],
    )


def example_request(look: TableLook | ImagesLook) -> dict[str, object]:
    """Returns a TF Serving REST request with the most frequent values, or `...` for an image."""
    from penstock.components.trainer.served_columns import SERVE_COLUMNS, SERVE_IMAGES, column_name

    if isinstance(look, ImagesLook):
        return {"signature_name": SERVE_IMAGES, "instances": [{"encoded": {"b64": "..."}}]}
    used = set(look.roles.used)
    inputs: dict[str, list[object]] = {}
    for column in look.columns:
        if column.name in used:
            value = column.counts[0][0]
            is_float = column.kind is FeatureKind.FLOAT
            inputs[column_name(column.name)] = [float(f"{value:.6g}") if is_float else value]
    return {"signature_name": SERVE_COLUMNS, "inputs": inputs}
