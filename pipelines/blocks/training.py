"""Training of any pipeline: two inputs and a model in, a model better than a constant out.

The best constant is the share of each class, or the mean. It is computed from the evaluation rows
themselves, so it is the hardest constant to beat.
"""

import json
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from typing import Any

import keras
import numpy as np
import tensorflow as tf
from tfx.components.trainer.fn_args_utils import FnArgs

from penstock.components.errors import DataError
from penstock.components.plain import from_plain
from penstock.components.trainer.base_model import warm_started
from penstock.components.trainer.checkpoints import resume_dir
from penstock.components.trainer.input.input import Input
from penstock.components.trainer.loop import Trained, train
from penstock.components.trainer.options import TrainOptions
from penstock.components.trainer.trackers.options import TrackOptions
from penstock.pipelines.blocks.label_facts import LabelTally
from penstock.pipelines.blocks.target import Target
from penstock.pipelines.runs.baseline import BASELINE_NAME, Beaten

# The comparison is accurate to well below a percent; more rows would cost a second evaluation.
_MAX_ROWS = 200_000
_LEAST = 1e-7  # Keras clips probabilities there


def train_and_compare(
    fn_args: FnArgs,
    targets: Sequence[Target],
    build_model: Callable[[], keras.Model],
    train_input: Input,
    eval_input: Input,
    *,
    seed: int | None,
) -> Trained | None:
    """Trains a model as `custom_config` says and compares it with the best constant.

    Returns None on a worker that is not the chief.
    """
    config = fn_args.custom_config
    if seed is not None:
        keras.utils.set_random_seed(seed)
    # A tracker does not change the training, so a run may go on with another one.
    training = {name: value for name, value in config.items() if name != "track"}
    trained = train(
        warm_started(
            build_model,
            fn_args.base_model or config["start_from"],
            fn_args.transform_graph_path,
            partly=fn_args.base_model is not None,
        ),
        train_input.train,
        eval_input.eval(),
        options=from_plain(TrainOptions, config["train"]),
        model_run_dir=fn_args.model_run_dir,
        resume_dir=resume_dir(
            fn_args.model_run_dir, [fn_args.train_files, fn_args.base_model, training]
        ),
        input_facts=train_input.facts(),
        track=from_plain(TrackOptions, config["track"]),
        params=training,
    )
    if not trained.is_chief:
        return None
    compared = compare_with_baseline(trained.model, eval_input.eval(), targets)
    write_baseline(fn_args.model_run_dir, compared)
    if config["must_beat_baseline"]:
        require_beaten(compared)
    return trained


def compare_with_baseline(
    model: keras.Model, eval_data: tf.data.Dataset, targets: Sequence[Target]
) -> list[Beaten]:
    """Compares a model with each target's best constant in one pass over `(features, label)`."""
    tallies = {target.label: LabelTally(target) for target in targets}
    losses = dict.fromkeys(tallies, 0.0)
    rows = 0
    predict = tf.function(lambda features: model(features, training=False), autograph=False)
    for features, label in eval_data:
        outputs = predict(features)
        for target in targets:
            y = _of(label, target, targets).numpy().reshape(-1)
            tallies[target.label].add(y)
            losses[target.label] += _loss(target, y, _of(outputs, target, targets).numpy())
        rows += len(y)
        if rows >= _MAX_ROWS:
            break
    return [_beaten(t, tallies[t.label], losses[t.label] / rows) for t in targets]


def write_baseline(model_run_dir: str, compared: Sequence[Beaten]) -> None:
    with tf.io.gfile.GFile(os.path.join(model_run_dir, BASELINE_NAME), "w") as file:
        file.write(json.dumps([asdict(one) for one in compared], indent=1))


def require_beaten(compared: Sequence[Beaten]) -> None:
    failed = [str(one) for one in compared if not one.is_beaten]
    if failed:
        raise DataError(
            f"the model is no better than a constant ({'; '.join(failed)}); train longer, give it "
            "other features, or set must_beat_baseline=false"
        )


def _of(values: Any, target: Target, targets: Sequence[Target]) -> tf.Tensor:
    return values[target.label] if isinstance(values, Mapping) and len(targets) > 1 else values


def _loss(target: Target, y: np.ndarray, p: np.ndarray) -> float:
    p = p.astype(np.float64)
    if target.task == "regression":
        return float(((p.reshape(-1) - y) ** 2).sum())
    if target.task == "binary":
        p = np.stack([1 - p.reshape(-1), p.reshape(-1)], axis=1)
    chosen = p[np.arange(len(y)), y.astype(np.int64)]
    return float(-np.log(np.clip(chosen, _LEAST, 1)).sum())


def _beaten(target: Target, tally: LabelTally, loss: float) -> Beaten:
    facts = tally.facts()
    if target.task == "regression":
        metric, constant = "mean squared error", f"{facts.mean:.4g}"
    else:
        most = int(np.argmax(facts.class_counts))
        share = facts.class_counts[most] / facts.rows
        metric, constant = "cross-entropy", f"{target.classes[most]!r} with {share:.3f}"
    return Beaten(
        target.name, metric, loss, facts.baseline_loss, constant, facts.rows, target.label,
        target.classes,
    )  # fmt: skip
