"""Evaluates models on Examples: sums whole batches by slice, and writes TFMA's files."""

import os
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Any

import tensorflow as tf
from tensorflow_model_analysis import constants
from tensorflow_model_analysis.api.types import EvalSharedModel
from tensorflow_model_analysis.evaluators import metrics_plots_and_validations_evaluator as tfma
from tensorflow_model_analysis.evaluators import metrics_validator
from tensorflow_model_analysis.metrics import metric_types
from tensorflow_model_analysis.proto import config_pb2
from tensorflow_model_analysis.utils import config_util, model_util
from tensorflow_model_analysis.writers import eval_config_writer
from tensorflow_model_analysis.writers import metrics_plots_and_validations_writer as writer

from penstock.components.batches.fallback import refuse
from penstock.components.batches.shards import ShardTask
from penstock.components.engine.tasks import Engine
from penstock.components.evaluator.error_analysis import Predict
from penstock.components.evaluator.evaluation import HELD_OUT, Evaluation
from penstock.components.evaluator.inputs import Batch
from penstock.components.evaluator.slices import SliceKey
from penstock.components.evaluator.summarize import write_evaluation
from penstock.components.evaluator.tasks import EvaluateShard, Sums, sum_shards

# Slice key, and the values by metric key.
Result = tuple[SliceKey, dict[Any, Any]]


def require_in_batches(
    eval_config: config_pb2.EvalConfig, models: Sequence[EvalSharedModel]
) -> None:
    """Raises NotInBatchesError for options and models that only TFMA's pipeline supports."""
    options = eval_config.options
    in_model = not options.HasField("include_default_metrics") or (
        options.include_default_metrics.value
    )
    kinds = {model.model_type for model in models}
    reasons = {
        "no model": not models,
        "a model that is no SavedModel": bool(kinds - {constants.TF_GENERIC, constants.TF_KERAS}),
        "metrics inside the model": in_model and constants.TF_KERAS in kinds,
        "query_key": any(spec.query_key for spec in eval_config.metrics_specs),
        "slice_keys_sql": any(spec.slice_keys_sql for spec in eval_config.slicing_specs),
        "cross_slicing_specs": bool(eval_config.cross_slicing_specs),
        "confidence intervals": options.compute_confidence_intervals.value,
        "min_slice_size": options.min_slice_size.value > 1,
        "disabled_outputs": bool(options.disabled_outputs.values),
    }
    refuse(reasons)


def evaluate(
    tasks: Sequence[ShardTask],
    output: str,
    *,
    eval_config: config_pb2.EvalConfig,
    models: Sequence[EvalSharedModel],
    engine: Engine = 1,
    held_out: Sequence[ShardTask] = (),
) -> Evaluation:
    """Evaluates as TFMA does; writes TFMA's files, `evaluation.json` and an error analysis.

    Metrics differ from TFMA's by rounding, since rows are summed in another order; they are the
    same on every engine. For the rows of `held_out`, metrics are computed only over all of them
    together, and written to the subfolder `test`.

    Raises:
        NotInBatchesError: Only TFMA's pipeline supports a metric or the rows; nothing is written.
    """
    models = model_util.verify_and_update_eval_shared_models(list(models)) or []
    work = EvaluateShard(
        eval_config.SerializeToString(deterministic=True),
        tuple((model.model_path, model.model_name) for model in models),
        shards=len(tasks),
    )
    _ = work.tallies  # raises before any work if a metric is not known
    sums = sum_shards(work, tasks, engine=engine, output=output)
    apart = None
    if held_out:
        of_these = sum_shards(work, held_out, engine=engine, output=output)
        apart = _written(work, of_these, [()], os.path.join(output, HELD_OUT), models)
    return _written(
        work,
        sums,
        sums.keys,
        output,
        models,
        predict=lambda rows: work.predictor.batch(rows).extracts,
        held_out=apart,
    )


def evaluate_predictions(
    batches: Iterable[Batch], output: str, eval_config: config_pb2.EvalConfig
) -> Evaluation:
    """Evaluates predictions that exist already, and writes the files that `evaluate` writes."""
    config = config_util.update_eval_config_with_defaults(eval_config, has_baseline=False)
    work = EvaluateShard(config.SerializeToString(deterministic=True), (), shards=1)
    sums = work.summed(batches)
    return _written(work, sums, sums.keys, output, [])


def _written(
    work: EvaluateShard,
    sums: Sums,
    slices: Collection[SliceKey],
    output: str,
    models: Sequence[EvalSharedModel],
    *,
    predict: Predict | None = None,
    held_out: Evaluation | None = None,
) -> Evaluation:
    eval_config, tallies = work.eval_config, work.tallies
    for tally, summed in zip(tallies, sums.tallies, strict=True):
        tally.sums = summed
    outputs = (
        (key, {name: value for tally in tallies for name, value in tally.output(number).items()})
        for number, key in enumerate(sums.keys)
        if key in slices
    )
    results = _derived(outputs, work.computations, eval_config)
    _write_results(results, output, eval_config=eval_config, models=models)
    sums.analysis.write(output, sums.keys, predict)
    return write_evaluation(output, sums.rows, held_out)


def _derived(
    outputs: Iterable[Result], computations: Any, eval_config: config_pb2.EvalConfig
) -> Iterator[Result]:
    spec = model_util.get_baseline_model_spec(eval_config)
    for key, output in outputs:
        values = dict(output)
        for computation in computations.derived_computations:
            values.update(computation.result(values))
        values.update(_differences(values, spec.name if spec else None))
        key, values = tfma._add_ci_derived_metrics(
            (key, values), computations.ci_derived_computations
        )
        yield tfma._remove_private_metrics(key, values)


def _differences(values: dict[Any, Any], baseline: str | None) -> dict[Any, Any]:
    """Returns candidate minus baseline, for each metric that both have."""
    found = {}
    for key, value in values.items():
        if baseline is None or tfma._is_private_metrics(key) or key.is_diff:
            continue
        other = key.make_baseline_key(baseline)
        if key.model_name != baseline and other in values and tfma._is_metric_diffable(value):
            found[key.make_diff_key()] = value - values[other]
    return found


def _write_results(
    results: Iterable[Result],
    output: str,
    *,
    eval_config: config_pb2.EvalConfig,
    models: Sequence[EvalSharedModel],
) -> None:
    tf.io.gfile.makedirs(output)
    validation = writer.CombineValidations(
        eval_config, rubber_stamp=model_util.has_rubber_stamp(list(models))
    )
    judged = validation.create_accumulator()

    def records(name: str) -> tf.io.TFRecordWriter:
        return tf.io.TFRecordWriter(os.path.join(output, f"{name}.tfrecord"))

    with (
        records("metrics-00000-of-00001") as of_metrics,
        records("plots-00000-of-00001") as of_plots,
    ):
        for slice_key, values in results:
            metrics, plots = (
                (slice_key, {key: value for key, value in values.items() if type(key) is kind})
                for kind in (metric_types.MetricKey, metric_types.PlotKey)
            )
            message = writer.convert_slice_metrics_to_proto(metrics, add_metrics_callbacks=None)
            of_metrics.write(message.SerializeToString())
            message = writer.convert_slice_plots_to_proto(plots, add_metrics_callbacks=None)
            of_plots.write(message.SerializeToString())
            judged = validation.add_input(
                judged, metrics_validator.validate_metrics(metrics, eval_config)
            )
    with records(constants.VALIDATIONS_KEY) as of_validations:
        of_validations.write(validation.extract_output(judged).SerializeToString())
    run = eval_config_writer._serialize_eval_run(
        eval_config, "<user provided PCollection>", "<unknown>",
        {model.model_name: model.model_path for model in models},
    )  # fmt: skip
    name = f"{eval_config_writer.EVAL_CONFIG_FILE}.{eval_config_writer.EVAL_CONFIG_FILE_FORMAT}"
    with tf.io.gfile.GFile(os.path.join(output, name), "w") as file:
        file.write(f"{run}\n")
