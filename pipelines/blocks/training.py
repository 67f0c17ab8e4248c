"""Trains the model of any pipeline, and compares it with a constant and with simple models.

The best constant is the share of each class, or the mean of the labels, in the evaluation rows; no
other constant has a smaller loss on them.
"""

import json
import math
import os
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import asdict
from pkgutil import resolve_name
from typing import Any, NamedTuple

import keras
import numpy as np
import tensorflow as tf
from tfx.components.trainer.fn_args_utils import FnArgs

from penstock.components import activity
from penstock.components.errors import DataError, UsageError, short_error
from penstock.components.memory import release_memory
from penstock.components.trainer.checkpoints import resume_dir
from penstock.components.trainer.input.input import Input
from penstock.components.trainer.loop import Trained, train
from penstock.components.trainer.model_setup import warm_started
from penstock.pipelines.blocks.config import DecideOptions
from penstock.pipelines.blocks.decide import decision_threshold, require_two_classes
from penstock.pipelines.blocks.facts import label_facts
from penstock.pipelines.blocks.rivals import MAX_ROWS, predict_rivals
from penstock.pipelines.blocks.target import Target
from penstock.pipelines.blocks.training_options import TrainingOptions
from penstock.pipelines.runs.rivals import (
    CONSTANT,
    LINEAR,
    RIVALS_NAME,
    TREES,
    Beaten,
    Rival,
)

# With this number of rows, the difference of two losses is accurate to well below a percent of the
# losses; comparing all rows would cost as much as a second evaluation.
_MAX_ROWS = 50_000
# Maximum number of values (rows times columns) on which rivals are fitted; it limits the time of
# trees on wide tables.
_MAX_VALUES = 4_000_000
_LEAST = 1e-7  # trees may give the label's class a probability of 0


def train_and_compare(
    fn_args: FnArgs,
    targets: Sequence[Target],
    options: TrainingOptions,
    build_model: Callable[[], keras.Model],
    train_input: Input,
    eval_input: Input,
    fitting_input: Input | None = None,
) -> tuple[Trained, list[Beaten]] | None:
    """Trains a model and compares it with simpler models.

    The simpler models are a constant and, if `fitting_input` is given, models fitted on its rows.

    Returns None on a worker that is not the chief, and in a trial of the Tuner, which needs only
    the record of the training.
    """
    require_two_classes(options.decide, targets)
    config = fn_args.custom_config
    if options.input.seed is not None:
        keras.utils.set_random_seed(options.input.seed)
    # A resumed training may have other callbacks, such as another tracker.
    training = {name: value for name, value in config.items() if name != "callbacks"}
    eval_rows = eval_input.eval()
    trained = train(
        warm_started(
            build_model,
            fn_args.base_model or options.start_from,
            fn_args.transform_graph_path,
            partly=fn_args.base_model is not None,
        ),
        train_input.train,
        eval_rows,
        options=options.train,
        model_run_dir=fn_args.model_run_dir,
        resume_dir=resume_dir(
            fn_args.model_run_dir,
            [fn_args.train_files, fn_args.base_model, training, fn_args.hyperparameters],
        ),
        callbacks=callbacks_of(options.callbacks),
    )
    if not trained.is_chief:
        return None
    if fn_args.serving_model_dir is None:
        trained.discard_checkpoints()
        return None
    release_memory()
    compared = compare_with_rivals(
        trained.model,
        eval_rows,
        targets,
        fitting_input.eval() if fitting_input else None,
        options.decide,
    )
    write_rivals(fn_args.model_run_dir, compared)
    for one in compared:
        if not one.beats(LINEAR):
            activity.tell(f"the model does not beat a linear one: {one}", is_milestone=True)
        if one.missed:
            activity.tell(f"{one.target}: {one.missed}", is_milestone=True)
    if options.must_beat:
        require_beaten(compared, options.must_beat)
    return trained, compared


def callbacks_of(path: str | None) -> Sequence[keras.callbacks.Callback]:
    """Returns the callbacks that the function at a dotted path returns; none without a path."""
    if path is None:
        return ()
    try:
        function = resolve_name(path)
    except (AttributeError, ImportError, ValueError) as error:
        raise UsageError(
            f"callbacks: {path!r} must be package.module.function, without arguments, of Keras "
            f"callbacks ({short_error(error)})"
        ) from error
    return function()


def compare_with_rivals(
    model: keras.Model,
    eval_data: tf.data.Dataset,
    targets: Sequence[Target],
    train_data: tf.data.Dataset | None = None,
    decide: DecideOptions | None = None,
) -> list[Beaten]:
    """Compares a model with each target's best constant on the first 50,000 rows of `eval_data`.

    With `train_data`, also fits a linear model and boosted trees on its first rows, and compares
    the model with them. With `decide`, the threshold of each binary target is chosen on the rows of
    the comparison. Both datasets yield batches `(features, label)`.
    """

    def judge(features: Any, label: Any) -> tuple[dict[str, tf.Tensor], dict[str, tf.Tensor]]:
        labels, outputs = (
            _by_label(label, targets),
            _by_label(model(features, training=False), targets),
        )
        losses, said = {}, {}
        for target in targets:
            y, p = tf.reshape(labels[target.label], [-1, 1]), outputs[target.label]
            # Within the model's graph, Keras computes the loss from the logits before a sigmoid or
            # softmax, as in training. Computed from 32-bit probabilities, the loss of a row could
            # not exceed about 16.
            losses[target.label] = keras.losses.get(target.loss)(y, p)
            if target.classes:
                said[target.label] = p[:, 0] if target.task == "binary" else tf.argmax(p, axis=1)
        return losses, said

    traced = tf.function(
        judge,
        input_signature=eval_data.element_spec,  # one trace for all sizes of a batch
        autograph=False,
    )
    names = _comparable(train_data.element_spec[0]) if train_data is not None else {}
    tested = _gather(eval_data, targets, names, _MAX_ROWS, traced)
    fitted = None
    if train_data is not None and names:
        most = max(1, min(MAX_ROWS, _MAX_VALUES // sum(names.values())))
        fitted = _gather(train_data, targets, names, most)
    return [_compared(target, tested, fitted, decide or DecideOptions()) for target in targets]


def _comparable(features: Mapping[str, Any]) -> dict[str, int]:
    """Returns the width of each feature that is a tensor [batch, width] of numbers."""
    return {
        name: spec.shape[1]
        for name, spec in features.items()
        if isinstance(spec, tf.TensorSpec)
        and spec.shape.rank == 2
        and (spec.dtype.is_floating or spec.dtype.is_integer)
    }


class _Rows(NamedTuple):
    """Rows of a split as arrays: `features` by name, the other arrays by the label's name."""

    features: dict[str, np.ndarray]
    labels: dict[str, np.ndarray]
    losses: dict[str, np.ndarray]
    predicted: dict[str, np.ndarray]  # class numbers; if binary, probabilities of the second class
    # Number of rows that were read, if the split has more; None if it was read to its end.
    part: int | None


def _gather(
    data: tf.data.Dataset,
    targets: Sequence[Target],
    names: Collection[str],
    most: int,
    judge: Callable[[Any, Any], tuple[Any, Any]] = lambda features, label: ({}, {}),
) -> _Rows:
    batches: list[Any] = []
    rows, part = 0, None
    for features, label in data:
        if rows >= most:
            part = rows
            break
        labels = {n: tf.reshape(y, [-1]) for n, y in _by_label(label, targets).items()}
        batches.append(({n: features[n] for n in names}, labels, *judge(features, label)))
        rows += len(labels[targets[0].label])
    x, y, losses, p = tf.nest.map_structure(lambda *values: np.concatenate(values), *batches)
    return _Rows(x, y, losses, p, part)


def _compared(target: Target, tested: _Rows, fitted: _Rows | None, decide: DecideOptions) -> Beaten:
    y, losses = tested.labels[target.label], tested.losses[target.label].astype(np.float64)
    facts = label_facts([y], target)
    if target.task == "regression":
        metric, constant = "mean squared error", f"{facts.mean:.4g}"
    else:
        most = int(np.argmax(facts.class_counts))
        share = facts.class_counts[most] / facts.rows
        metric, constant = "cross-entropy", f"{target.classes[most]!r} with {share:.3f}"
    rivals = []
    if fitted is not None:
        predicted = predict_rivals(
            fitted.features, fitted.labels[target.label], tested.features, target
        )
        for name, values in predicted.items():
            own = _losses(target, y, values)
            error = float((own - losses).std() / math.sqrt(len(y)))
            rivals.append(Rival(name, float(own.mean()), error, fitted.part))
    threshold, found = None, ()
    if target.classes:
        said = tested.predicted[target.label]
        if target.task == "binary":
            threshold = decision_threshold(y, said, decide)
            said = said > 0.5 if threshold is None else said >= threshold
        right = y[said == y].astype(np.int64)
        found = tuple(np.bincount(right, minlength=len(target.classes)).tolist())
    return Beaten(
        target.name,
        metric,
        float(losses.mean()),
        facts.constant_loss,
        constant,
        facts.rows,
        target.label,
        target.classes,
        tuple(rivals),
        facts.class_counts,
        found,
        threshold,
    )


def write_rivals(model_run_dir: str, compared: Sequence[Beaten]) -> None:
    with tf.io.gfile.GFile(os.path.join(model_run_dir, RIVALS_NAME), "w") as file:
        file.write(json.dumps([asdict(one) for one in compared], indent=1))


def require_beaten(compared: Sequence[Beaten], must_beat: str) -> None:
    """Raises a DataError with the losses of targets where the model does not beat `must_beat`."""
    failed = [str(one) for one in compared if not one.beats(must_beat)]
    if failed:
        what = {LINEAR: "a linear model", TREES: "boosted trees"}.get(must_beat, "a constant")
        raise DataError(
            f"the model is no better than {what} ({'; '.join(failed)}); train longer, give it "
            f"other features, or set must_beat={'null' if must_beat == CONSTANT else CONSTANT}"
        )


def _by_label(values: Any, targets: Sequence[Target]) -> Mapping[str, tf.Tensor]:
    return values if len(targets) > 1 else {targets[0].label: values}


def _losses(target: Target, y: np.ndarray, p: np.ndarray) -> np.ndarray:
    """Returns each row's loss; `p` has predictions [rows], or probabilities [rows, classes]."""
    p = p.astype(np.float64)
    if target.task == "regression":
        return (p.reshape(-1) - y) ** 2
    return -np.log(np.clip(p[np.arange(len(y)), y.astype(np.int64)], _LEAST, 1))
