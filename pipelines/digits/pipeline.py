"""The image pipeline: image files and their labels in, a pushed classifier of images out."""

from dataclasses import replace

from tfx.orchestration.pipeline import Pipeline

from penstock.nodes import ShardedExampleGen
from penstock.pipelines.digits import data, features
from penstock.pipelines.digits.config import DigitsConfig
from penstock.pipelines.digits.example_gen import DigitsExampleGen
from penstock.recipes import (
    eval_config,
    image_examples,
    image_gate,
    image_splits,
    run_root,
    training_pipeline,
)
from penstock.training import check_application


def create_pipeline(config: DigitsConfig) -> Pipeline:
    """Returns `training_pipeline` with a gate of images."""
    if config.model.application:
        check_application(config.model.application)
    example_gen = image_examples(config) if config.data else _digits(config)
    return training_pipeline(
        "digits",
        config,
        example_gen=example_gen,
        gates=[image_gate(config, example_gen)],
        labels=[features.TARGET.name],
        preprocessing_fn="penstock.pipelines.digits.preprocessing.preprocessing_fn",
        run_fn="penstock.pipelines.digits.run_fn.run_fn",
        eval_config=eval_config([features.TARGET], config.evaluation),
        materialize=False,
    )


def _digits(config: DigitsConfig) -> ShardedExampleGen:
    folder = f"{run_root(config)}/data"
    return DigitsExampleGen(
        f"{folder}/{data.IMAGES}",
        output_config=image_splits(),
        source=replace(config.source, labels_file=f"{folder}/{data.LABELS}"),
        ingest=config.ingest,
    )
