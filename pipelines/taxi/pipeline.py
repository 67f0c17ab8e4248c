"""The Chicago taxi pipeline: from trips in CSV to a pushed model that predicts big tips."""

from tfx.orchestration.pipeline import Pipeline

from penstock.pipelines.taxi import features
from penstock.pipelines.taxi.config import Config
from penstock.recipes import eval_config, table_examples, training_pipeline


def create_pipeline(config: Config) -> Pipeline:
    """Returns the `training_pipeline` of the taxi data."""
    return training_pipeline(
        "taxi",
        config,
        example_gen=table_examples(config),
        labels=[features.TARGET.name],
        preprocessing_fn="penstock.pipelines.taxi.preprocessing.preprocessing_fn",
        run_fn="penstock.pipelines.taxi.model.run_fn",
        eval_config=eval_config([features.TARGET], config.evaluation),
        packing=config.packing if config.pack else None,
    )
