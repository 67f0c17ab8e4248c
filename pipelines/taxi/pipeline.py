"""The Chicago taxi pipeline: trips in CSV in, a pushed model that predicts big tips out."""

from tfx.orchestration.pipeline import Pipeline

from penstock import EvaluationOptions, eval_config, table_examples, training_pipeline
from penstock.pipelines.taxi import features
from penstock.pipelines.taxi.config import TaxiConfig


def create_pipeline(config: TaxiConfig) -> Pipeline:
    """The nodes of `training_pipeline`, with thresholds for all trips together."""
    asked = config.evaluation
    evaluation = EvaluationOptions(
        thresholds={"BinaryAccuracy": asked.min_accuracy, "AUC": asked.min_auc},
        max_worsening={"BinaryAccuracy": asked.max_accuracy_drop},
        slices=("trip_start_hour", "payment_type"),
    )
    return training_pipeline(
        "taxi",
        config,
        example_gen=table_examples(config),
        labels=[features.TARGET.name],
        preprocessing_fn="penstock.pipelines.taxi.preprocessing.preprocessing_fn",
        run_fn="penstock.pipelines.taxi.run_fn.run_fn",
        eval_config=eval_config([features.TARGET], evaluation),
        packing=config.packing if config.pack else None,
    )
