"""TFX node that keeps a model that cannot be served from being pushed.

In: a Model and Examples. Out: an InfraBlessing, which the stock Pusher takes
(`Pusher(infra_blessing=check.outputs["blessing"])`), with `serving_check.json` in it. TFX's
InfraValidator does the same but needs Docker or the right to create pods.
"""

import json
import os
from dataclasses import asdict

import tensorflow as tf
from tfx.dsl.component.experimental.annotations import InputArtifact, OutputArtifact, Parameter
from tfx.dsl.io import fileio
from tfx.types import artifact_utils
from tfx.types.standard_artifacts import Examples, InfraBlessing, Model
from tfx.utils import path_utils

from penstock.components.errors import DataError, UsageError
from penstock.components.gates.options import ServingOptions
from penstock.components.gates.options_component import options_component
from penstock.components.gates.serving import WARM_UP_REQUESTS, check_serving
from penstock.components.plain import from_json

REPORT_NAME = "serving_check.json"
# Property and files of TFX's InfraValidator, which its Pusher reads.
_BLESSED, _FILES = "blessed", ("INFRA_NOT_BLESSED", "INFRA_BLESSED")


@options_component(ServingOptions)
def ServingCheck(  # noqa: N802 - TFX names a node after its function
    model: InputArtifact[Model],
    examples: InputArtifact[Examples],
    blessing: OutputArtifact[InfraBlessing],
    options: Parameter[str],
) -> None:
    """Loads a model as TensorFlow Serving does, sends it rows of a split, and blesses it or not.

    Args:
        model: Output of a Trainer.
        examples: Examples that the model's signature parses.
        blessing: Whether the model may be pushed, and `serving_check.json` with the reasons.
        options: A `ServingOptions`.

    Raises:
        UsageError: An option does not fit the Examples.
        DataError: The split has no files.
    """
    asked = from_json(ServingOptions, options)
    rows = _rows(examples, asked.split, asked.requests + WARM_UP_REQUESTS)
    report = check_serving(path_utils.serving_model_path(model.uri), rows, asked)
    with fileio.open(os.path.join(blessing.uri, REPORT_NAME), "w") as file:
        file.write(json.dumps(asdict(report), indent=1) + "\n")
    blessed = not report.problems
    with fileio.open(os.path.join(blessing.uri, _FILES[blessed]), "w") as file:
        file.write("")
    blessing.set_int_custom_property(_BLESSED, int(blessed))
    if blessed:
        print(
            f"serving check: loads in {report.load_seconds:.1f} s; {report.requests} requests, "
            f"p50 {report.p50_ms:.1f} ms, p99 {report.p99_ms:.1f} ms"
        )
    else:
        print(f"serving check: not to be pushed: {'; '.join(report.problems)}")


def _rows(examples: Examples, split: str, count: int) -> list[bytes]:
    splits = artifact_utils.decode_split_names(examples.split_names)
    if split not in splits:
        raise UsageError(f"the Examples have no split {split!r}; choices: {', '.join(splits)}")
    folder = artifact_utils.get_split_uri([examples], split)
    files = sorted(fileio.glob(os.path.join(folder, "*tfrecord*")))
    if not files:
        raise DataError(f"{folder}: no TFRecord files")
    compression = "GZIP" if files[0].endswith(".gz") else ""
    return list(tf.data.TFRecordDataset(files, compression).take(count).as_numpy_iterator())
