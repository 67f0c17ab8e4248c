"""The image pipeline: from image files and their labels to a pushed classifier of images."""

from dataclasses import replace

from tfx.orchestration.pipeline import Pipeline

from penstock.nodes import ImageGate
from penstock.pipelines.digits import features
from penstock.pipelines.digits.config import Config
from penstock.pipelines.digits.example_gen import IMAGES, LABELS, DigitsExampleGen
from penstock.recipes import eval_config, image_examples, training_pipeline
from penstock.training import check_application


def create_pipeline(config: Config) -> Pipeline:
    """Returns `training_pipeline` with an ImageGate."""
    if config.model.application:
        check_application(config.model.application)
    if config.data:
        example_gen = image_examples(config)
    else:
        folder = f"{config.folder}/data"
        source = replace(config.source, labels_file=f"{folder}/{LABELS}")
        written = replace(config, data=f"{folder}/{IMAGES}", source=source)
        example_gen = image_examples(written, node=DigitsExampleGen)
    gate = ImageGate(examples=example_gen.outputs["examples"], options=config.checks)
    return training_pipeline(
        "digits",
        config,
        example_gen=example_gen,
        gates=[gate],
        labels=[features.TARGET.name],
        preprocessing_fn="penstock.pipelines.digits.preprocessing.preprocessing_fn",
        run_fn="penstock.pipelines.digits.model.run_fn",
        eval_config=eval_config([features.TARGET], config.evaluation),
        materialize=False,
    )
