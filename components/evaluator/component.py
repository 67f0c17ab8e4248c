"""TFX node: TFX's Evaluator with an executor that evaluates whole batches."""

import os
from typing import Any

import tensorflow_model_analysis as tfma
from tensorflow_model_analysis.api.types import EvalSharedModel
from tensorflow_model_analysis.metrics import metric_specs
from tensorflow_model_analysis.proto import config_pb2
from tensorflow_model_analysis.utils import config_util
from tfx.components.evaluator import component, constants, executor
from tfx.components.util import tfxio_utils
from tfx.dsl.components.base import executor_spec
from tfx.proto import example_gen_pb2
from tfx.types import artifact_utils
from tfx.types import standard_component_specs as keys
from tfx.utils import io_utils, json_utils, path_utils, proto_utils

from penstock.components.batches.fallback import Artifacts, InBatches, refuse
from penstock.components.batches.shards import ShardTask, shard_tasks
from penstock.components.engine.pipeline import node_engine
from penstock.components.errors import DataError
from penstock.components.evaluator.evaluate import evaluate, require_in_batches
from penstock.components.evaluator.evaluation import HELD_OUT
from penstock.components.evaluator.summarize import write_evaluation
from penstock.components.tfrecord.checked import no_rows


class _Stock(executor.Executor):
    def Do(  # noqa: N802, TFX's name
        self, input_dict: Artifacts, output_dict: Artifacts, exec_properties: dict[str, Any]
    ) -> None:
        super().Do(input_dict, output_dict, exec_properties)
        write_evaluation(artifact_utils.get_single_uri(output_dict[keys.EVALUATION_KEY]))


class Executor(InBatches, _Stock):
    told_at = keys.EVALUATION_KEY
    work = "evaluated in batches but by TFMA"

    def in_batches(
        self, input_dict: Artifacts, output_dict: Artifacts, exec_properties: dict[str, Any]
    ) -> None:
        _require_plain(input_dict, exec_properties)
        config = _eval_config(input_dict, exec_properties)
        models = _models(input_dict, config)
        require_in_batches(config, models)
        self._log_startup(input_dict, output_dict, exec_properties)
        evaluate(
            _tasks(input_dict, exec_properties),
            artifact_utils.get_single_uri(output_dict[keys.EVALUATION_KEY]),
            eval_config=config,
            models=models,
            engine=node_engine(self._make_beam_pipeline),
            held_out=_held_out(input_dict, exec_properties),
        )
        if metric_specs.metric_thresholds_from_metrics_specs(
            config.metrics_specs, eval_config=config
        ):
            _bless(input_dict, output_dict, exec_properties)


class BatchEvaluator(component.Evaluator):
    """TFX's Evaluator with the same inputs, outputs and options, in a fraction of the time.

    The result equals TFMA's except for rounding, and is in TFMA's file formats. `evaluation.json`
    also contains the result as plain facts (`Evaluation`): metrics and intervals by slice,
    thresholds with their verdicts, confusion matrices and curves. If there is a split `test` that
    is not among `example_splits`, the result also has the metrics of this split. No thresholds
    apply to `test`, because this split is kept out of every choice.

    TFMA's own pipeline runs instead in cases such as the following, and the log names the case.
    Metrics: TFMA's BinaryCrossEntropy, metrics of single classes, aggregated metrics, metrics
    inside the model. Model and rows: a model that takes no batches, rows without a label or weight.
    Options: a query_key, confidence intervals, SQL and cross slices, a schema, a module of your
    own.
    """

    EXECUTOR_SPEC = executor_spec.BeamExecutorSpec(Executor)


def _require_plain(input_dict: Artifacts, exec_properties: dict[str, Any]) -> None:
    payload, _ = tfxio_utils.resolve_payload_format_and_data_view_uri(input_dict[keys.EXAMPLES_KEY])
    reasons = {
        "no eval_config": not exec_properties.get(keys.EVAL_CONFIG_KEY),
        "no model": not input_dict.get(keys.MODEL_KEY),
        "a module of your own": bool(exec_properties.get(keys.MODULE_PATH_KEY)),
        "a schema": bool(input_dict.get(keys.SCHEMA_KEY)),
        "records that are no Examples": payload != example_gen_pb2.FORMAT_TF_EXAMPLE,
    }
    refuse(reasons)


def _eval_config(input_dict: Artifacts, exec_properties: dict[str, Any]) -> config_pb2.EvalConfig:
    """Returns the config as TFX's executor reads it; drops change thresholds without a baseline."""
    config = config_pb2.EvalConfig()
    proto_utils.json_to_proto(exec_properties[keys.EVAL_CONFIG_KEY], config)
    config = config_util.update_eval_config_with_defaults(
        config, has_baseline=bool(input_dict.get(keys.BASELINE_MODEL_KEY)), rubber_stamp=True
    )
    config_util.verify_eval_config(config)
    return config


def _splits(exec_properties: dict[str, Any]) -> list[str]:
    return json_utils.loads(exec_properties.get(keys.EXAMPLE_SPLITS_KEY) or "null") or ["eval"]


def _held_out(input_dict: Artifacts, exec_properties: dict[str, Any]) -> list[ShardTask]:
    found = []
    for examples in input_dict[keys.EXAMPLES_KEY]:
        names = artifact_utils.decode_split_names(examples.split_names)
        if HELD_OUT in names and HELD_OUT not in _splits(exec_properties):
            found += [task for task in shard_tasks(examples.uri, HELD_OUT) if task.shard.rows]
    return found


def _tasks(input_dict: Artifacts, exec_properties: dict[str, Any]) -> list[ShardTask]:
    found = []
    for split in _splits(exec_properties):
        for examples in input_dict[keys.EXAMPLES_KEY]:
            tasks = [task for task in shard_tasks(examples.uri, split) if task.shard.rows]
            if not tasks:
                raise DataError(no_rows(examples.uri, split))
            found += tasks
    return found


def _models(input_dict: Artifacts, config: config_pb2.EvalConfig) -> list[EvalSharedModel]:
    found = []
    for spec in config.model_specs:
        key = keys.BASELINE_MODEL_KEY if spec.is_baseline else keys.MODEL_KEY
        model = artifact_utils.get_single_instance(input_dict[key])
        path = path_utils.serving_model_path(model.uri, path_utils.is_old_model_artifact(model))
        found.append(tfma.default_eval_shared_model(path, model_name=spec.name, eval_config=config))
    return found


def _bless(input_dict: Artifacts, output_dict: Artifacts, exec_properties: dict[str, Any]) -> None:
    blessing = artifact_utils.get_single_instance(output_dict[keys.BLESSING_KEY])
    judged = (
        (keys.MODEL_KEY, constants.ARTIFACT_PROPERTY_CURRENT_MODEL_URI_KEY,
         constants.ARTIFACT_PROPERTY_CURRENT_MODEL_ID_KEY),
        (keys.BASELINE_MODEL_KEY, constants.ARTIFACT_PROPERTY_BASELINE_MODEL_URI_KEY,
         constants.ARTIFACT_PROPERTY_BASELINE_MODEL_ID_KEY),
    )  # fmt: skip
    for key, uri_property, id_property in judged:
        for model in input_dict.get(key) or ():
            blessing.set_string_custom_property(uri_property, model.uri)
            blessing.set_int_custom_property(id_property, model.id)
    if "current_component_id" in exec_properties:
        blessing.set_string_custom_property("component_id", exec_properties["current_component_id"])
    evaluation = artifact_utils.get_single_uri(output_dict[keys.EVALUATION_KEY])
    passed = tfma.load_validation_result(evaluation).validation_ok
    name = constants.BLESSED_FILE_NAME if passed else constants.NOT_BLESSED_FILE_NAME
    io_utils.write_string_file(os.path.join(blessing.uri, name), "")
    value = constants.BLESSED_VALUE if passed else constants.NOT_BLESSED_VALUE
    blessing.set_int_custom_property(constants.ARTIFACT_PROPERTY_BLESSED_KEY, value)
