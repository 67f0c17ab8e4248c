"""The findings of a validation as files: statistics, anomalies, a schema, a page."""

from pathlib import Path

import tensorflow_data_validation as tfdv
from tfx.components.example_validator.executor import DEFAULT_FILE_NAME as ANOMALIES_FILE
from tfx.components.statistics_gen.executor import DEFAULT_FILE_NAME as STATISTICS_FILE

from penstock.components.files.commit import attempt
from penstock.components.tfrecord.sharding import split_dir
from penstock.pipelines.validation.pages import (
    anomalies_tables,
    page,
    problems_list,
    statistics_tables,
)
from penstock.pipelines.validation.validate import Validation

SCHEMA_FILE, PAGE_FILE = "schema.pbtxt", "report.html"


def keep_validation(validation: Validation, folder: Path) -> None:
    """Write all that was found; `folder` appears whole or not at all.

    Statistics and anomalies lie as TFX's own artifacts do, `Split-*/FeatureStats.pb` and
    `Split-*/SchemaDiff.pb`.
    """
    with attempt(folder) as whole:
        for split, statistics in validation.statistics.items():
            below = whole / split_dir(split)
            below.mkdir()
            (below / STATISTICS_FILE).write_bytes(statistics.SerializeToString())
            if split in validation.anomalies:
                anomalies = validation.anomalies[split].SerializeToString()
                (below / ANOMALIES_FILE).write_bytes(anomalies)
        tfdv.write_schema_text(validation.schema, str(whole / SCHEMA_FILE))
        (whole / PAGE_FILE).write_text(validation_page(validation), encoding="utf-8")


def validation_page(validation: Validation) -> str:
    """All that was found as an HTML page."""
    datasets = {split: found.datasets[0] for split, found in validation.statistics.items()}
    return page(
        [
            problems_list(validation.problems),
            anomalies_tables(validation.anomalies),
            statistics_tables(datasets),
        ]
    )
