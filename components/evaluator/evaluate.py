"""Records and models in, TFMA's evaluation out: predicted, sliced and added in whole batches."""

import logging
from collections.abc import Sequence
from typing import Any

from tensorflow_model_analysis import constants
from tensorflow_model_analysis.api.types import EvalSharedModel
from tensorflow_model_analysis.evaluators import metrics_plots_and_validations_evaluator as tfma
from tensorflow_model_analysis.metrics import metric_specs
from tensorflow_model_analysis.proto import config_pb2
from tensorflow_model_analysis.utils import model_util

from penstock.components.evaluator.class_tallies import tally_of
from penstock.components.evaluator.closer_look import CloserLook
from penstock.components.evaluator.predictor import Predictor, read_batches
from penstock.components.evaluator.results import derived, write_results
from penstock.components.evaluator.slices import Slicer
from penstock.components.evaluator.tallies import Tally
from penstock.components.trainer.input.files import InputFiles

logger = logging.getLogger(__name__)


def not_in_batches(
    eval_config: config_pb2.EvalConfig, models: Sequence[EvalSharedModel]
) -> str | None:
    """What of an evaluation is TFMA's alone, in words; None where it can be done in batches."""
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
    return ", ".join(name for name, found in reasons.items() if found) or None


def evaluate(
    inputs: Sequence[InputFiles],
    output: str,
    *,
    eval_config: config_pb2.EvalConfig,
    models: Sequence[EvalSharedModel],
) -> None:
    """Evaluate as TFMA does and write what it writes, and a `CloserLook` beside.

    Metrics are TFMA's to a rounding, sums being added in another order.

    Args:
        inputs: Files of `tf.train.Example` records.
        output: Folder for TFMA's files.
        eval_config: With TFMA's defaults; one for which `not_in_batches` has no word.
        models: One, or the candidate and its baseline, as the config names them.

    Raises:
        DataError: A prediction is NaN or a label no probability where a metric needs numbers.
        NotInBatchesError: A metric or the rows are not known in batches; nothing is written.
    """
    models = model_util.verify_and_update_eval_shared_models(list(models)) or []
    separated = tfma._filter_and_separate_computations(
        metric_specs.to_computations(list(eval_config.metrics_specs), eval_config=eval_config)
    )
    tallies = [tally_of(computation) for computation in separated.non_derived_computations]
    slicer = Slicer(eval_config)
    predictor = Predictor(eval_config, models, slice_names=slicer.names)
    look = CloserLook(eval_config)
    rows_read = 0
    for found in inputs:
        for records in read_batches(found):
            for batch in predictor.batches(records):
                rows, slices = slicer.members(batch.rows, batch.column)
                for tally in tallies:
                    tally.add(batch.extracts, rows, slices)
                look.add(batch.extracts, rows, slices)
                rows_read += batch.rows
    _log_rows(rows_read, slicer, eval_config)
    outputs = ((key, _outputs(tallies, number)) for number, key in enumerate(slicer.keys))
    results = derived(outputs, separated, eval_config)
    write_results(results, output, eval_config=eval_config, models=models)
    look.write(
        output, slicer.keys, lambda records: (b.extracts for b in predictor.batches(records))
    )


def _outputs(tallies: Sequence[Tally], number: int) -> dict[Any, Any]:
    """TFMA's outputs of a slice, by their keys."""
    found: dict[Any, Any] = {}
    for tally in tallies:
        found.update(tally.combiner.extract_output(tally.accumulator(number)))
    return found


def _log_rows(rows: int, slicer: Slicer, eval_config: config_pb2.EvalConfig) -> None:
    parts = [f"{rows:,} rows in {len(slicer.keys):,} slices"]
    for spec, outside in zip(eval_config.slicing_specs, slicer.outside, strict=False):
        if outside:
            values = [f"{name}={value}" for name, value in spec.feature_values.items()]
            parts.append(f"{outside:,} in none of {', '.join([*spec.feature_keys, *values])}")
    logger.info("evaluated in batches: %s", "; ".join(parts))
