"""Private names of TFX's libraries that Penstock uses: if one is missing, a test names what breaks.

Other tests compare Penstock's results with those of each library's own pipeline.
"""

import inspect
import pkgutil

import pytest
from tensorflow_model_analysis.utils import config_util, model_util

from penstock.components.evaluator.class_tallies import tally_of
from penstock.pipelines.blocks.config import EvaluationOptions
from penstock.pipelines.blocks.evaluation import METRICS, eval_config
from penstock.pipelines.blocks.target import Target

TFMA, TFDV = "tensorflow_model_analysis", "tensorflow_data_validation"
TFT = "tensorflow_transform"
EVALUATOR = f"{TFMA}.evaluators.metrics_plots_and_validations_evaluator"
# For each part of Penstock that breaks if one of them is missing: the private names that it uses,
# and the number of arguments that it passes to each.
SEAMS = {
    "BatchEvaluator: which computations metrics need, and how they follow from sums": {
        f"{EVALUATOR}:_filter_and_separate_computations": 1,
        f"{EVALUATOR}:_add_ci_derived_metrics": 2,
        f"{EVALUATOR}:_remove_private_metrics": 2,
        f"{EVALUATOR}:_is_private_metrics": 1,
        f"{EVALUATOR}:_is_metric_diffable": 1,
    },
    "BatchEvaluator: predictions of whole batches": {
        f"{TFMA}.utils.model_util:ModelSignaturesDoFn._batch_reducible_process": 2,
        f"{TFMA}.extractors.transformed_features_extractor:_DEFAULT_SIGNATURE_NAMES": None,
    },
    "BatchEvaluator: TFMA's eval_config.json": {
        f"{TFMA}.writers.eval_config_writer:_serialize_eval_run": 4,
    },
    "BatchStatisticsGen: the generators and the columns that TFDV's options ask for": {
        f"{TFDV}.statistics.stats_impl:get_generators": 1,
        f"{TFDV}.statistics.stats_impl:_filter_features": 2,
    },
    "BatchStatisticsGen: SequenceExamples": {
        "tfx_bsl.tfxio.tf_sequence_example_record:_SEQUENCE_COLUMN_NAME": None,
    },
    "BatchTransform: TFT's graph of operations, and the SavedModel that it writes": {
        f"{TFT}.beam.analysis_graph_builder:build": 5,
        f"{TFT}.impl_helper:get_traced_transform_fn": 4,
        f"{TFT}.impl_helper:trace_and_write_v2_saved_model": 8,
    },
    "export_model: raw features that a transformed one needs": {
        f"{TFT}.saved.saved_transform_io_v2:SavedModelLoader._get_feeds": 2,
        f"{TFT}.saved.saved_transform_io_v2:SavedModelLoader._get_fetches_keys": 2,
    },
    "train: layers of a model, and a fit of a model that is built": {
        "keras:Model._flatten_layers": 1,
        "keras:Model._maybe_symbolic_build": 1,
    },
}


@pytest.mark.parametrize(
    ("what", "name", "arguments"),
    [(what, name, count) for what, names in SEAMS.items() for name, count in names.items()],
)
def test_private_name_is_there_and_takes_what_penstock_gives_it(what, name, arguments):
    try:
        found = pkgutil.resolve_name(name)
    except (ImportError, AttributeError):
        pytest.fail(f"{name} is gone; breaks {what}")
    if arguments is not None:
        try:
            inspect.signature(found).bind(*range(arguments))
        except TypeError as error:
            pytest.fail(f"{name}: {error}; breaks {what}")


@pytest.mark.parametrize("task", METRICS)
def test_metrics_of_each_task_are_known_to_batches_by_tfmas_private_attributes(task):
    classes = {"binary": ("a", "b"), "classes": ("a", "b", "c"), "regression": ()}[task]
    config = config_util.update_eval_config_with_defaults(
        eval_config([Target("y", task, classes)], EvaluationOptions()), has_baseline=False
    )
    computations = pkgutil.resolve_name(f"{TFMA}.metrics.metric_specs:to_computations")
    separate = pkgutil.resolve_name(f"{EVALUATOR}:_filter_and_separate_computations")
    specs = list(config.metrics_specs)
    found = separate(computations(specs, eval_config=config)).non_derived_computations
    assert all(tally_of(one) for one in found)
    assert model_util.get_model_spec(config, "") is not None
