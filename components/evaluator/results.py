"""The results of all slices in TFMA's own files: metrics, plots, validations, the config."""

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack
from functools import partial
from typing import Any

import tensorflow as tf
from tensorflow_model_analysis import constants
from tensorflow_model_analysis.api.types import EvalSharedModel
from tensorflow_model_analysis.evaluators import metrics_plots_and_validations_evaluator as tfma
from tensorflow_model_analysis.evaluators import metrics_validator
from tensorflow_model_analysis.metrics import metric_types
from tensorflow_model_analysis.proto import config_pb2
from tensorflow_model_analysis.utils import model_util
from tensorflow_model_analysis.writers import eval_config_writer
from tensorflow_model_analysis.writers import metrics_plots_and_validations_writer as writer

from penstock.components.evaluator.slices import SliceKey

# A slice's key, and values by metric key.
Result = tuple[SliceKey, dict[Any, Any]]

# Of each kind of key: its file, and what makes the file's messages.
_FILES: dict[type, tuple[str, Callable[[Result], Any]]] = {
    metric_types.MetricKey: (
        constants.METRICS_KEY,
        partial(writer.convert_slice_metrics_to_proto, add_metrics_callbacks=None),
    ),
    metric_types.PlotKey: (
        constants.PLOTS_KEY,
        partial(writer.convert_slice_plots_to_proto, add_metrics_callbacks=None),
    ),
    metric_types.AttributionsKey: (
        constants.ATTRIBUTIONS_KEY,
        writer.convert_slice_attributions_to_proto,
    ),
}


def derived(
    outputs: Iterable[Result], computations: Any, eval_config: config_pb2.EvalConfig
) -> Iterator[Result]:
    """What the combiners gave, with all that derives from it by TFMA's separated computations."""
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
    """Candidate less baseline, of each metric that both have."""
    found = {}
    for key, value in values.items():
        if baseline is None or tfma._is_private_metrics(key) or key.is_diff:
            continue
        other = key.make_baseline_key(baseline)
        if key.model_name != baseline and other in values and tfma._is_metric_diffable(value):
            found[key.make_diff_key()] = value - values[other]
    return found


def write_results(
    results: Iterable[Result],
    output: str,
    *,
    eval_config: config_pb2.EvalConfig,
    models: Sequence[EvalSharedModel],
) -> None:
    """Write TFMA's files into the folder `output`, slice after slice."""
    tf.io.gfile.makedirs(output)
    validation = writer.CombineValidations(
        eval_config, rubber_stamp=model_util.has_rubber_stamp(list(models))
    )
    judged = validation.create_accumulator()
    with ExitStack() as opened:

        def records(name: str) -> tf.io.TFRecordWriter:
            path = os.path.join(output, f"{name}.tfrecord")
            return opened.enter_context(tf.io.TFRecordWriter(path))

        files = {kind: records(f"{name}-00000-of-00001") for kind, (name, _) in _FILES.items()}
        for result in results:
            of_kind = {kind: tfma._filter_by_key_type(result, kind) for kind in _FILES}
            for kind, (_, to_message) in _FILES.items():
                files[kind].write(to_message(of_kind[kind]).SerializeToString())
            metrics = of_kind[metric_types.MetricKey]
            judged = validation.add_input(
                judged, metrics_validator.validate_metrics(metrics, eval_config)
            )
        judged = validation.extract_output(judged)
        records(constants.VALIDATIONS_KEY).write(judged.SerializeToString())
    run = eval_config_writer._serialize_eval_run(
        eval_config, "<user provided PCollection>", "<unknown>",
        {model.model_name: model.model_path for model in models},
    )  # fmt: skip
    name = f"{eval_config_writer.EVAL_CONFIG_FILE}.{eval_config_writer.EVAL_CONFIG_FILE_FORMAT}"
    with tf.io.gfile.GFile(os.path.join(output, name), "w") as file:
        file.write(f"{run}\n")
