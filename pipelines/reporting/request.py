"""A request that a model answers, to copy: for Python, and for TensorFlow Serving's REST API."""

import base64
import json
import posixpath
from dataclasses import dataclass

from penstock.components.files.spool import local_path
from penstock.components.tfrecord.records import read_records
from penstock.pipelines.reporting.artifact_files import names_in, split_folder, splits_in
from penstock.pipelines.reporting.model_facts import Signature

# More would be no text to copy.
_LONGEST_RECORD_BYTES = 4096
_PROGRAM = """\
import tensorflow as tf

record = next(iter(tf.data.TFRecordDataset({shard!r}, {compression!r})))
model = tf.saved_model.load({model!r})
print(model.signatures[{signature!r}](record[tf.newaxis]))"""


@dataclass(frozen=True)
class Request:
    """A request as two texts to copy.

    Attributes:
        python: A program that loads the model and prints its answer for a row of the run's data.
        rest: The body of a POST to `/v1/models/NAME:predict`; None where it would be too long.
    """

    python: str
    rest: str | None


def make_request(signature: Signature, model: str, examples: str) -> Request | None:
    """A request of the first row of the last split of an `Examples` artifact.

    None where there is no row, or the signature does not take serialized Examples.
    """
    takes_examples = len(signature.inputs) == 1 and signature.inputs[0].dtype == "string"
    sample = _sample(examples) if takes_examples else None
    if sample is None:
        return None
    shard, record = sample
    compression = "GZIP" if shard.endswith(".gz") else ""
    python = _PROGRAM.format(
        shard=shard, compression=compression, model=model, signature=signature.name
    )
    if len(record) > _LONGEST_RECORD_BYTES:
        return Request(python, None)
    instance = {signature.inputs[0].name: {"b64": base64.b64encode(record).decode()}}
    body = {"signature_name": signature.name, "instances": [instance]}
    return Request(python, json.dumps(body))


def _sample(examples: str) -> tuple[str, bytes] | None:
    """A shard and its first record."""
    for split in reversed(splits_in(examples)):
        folder = split_folder(examples, split)
        for name in names_in(folder):
            path = posixpath.join(folder, name)
            for record in read_records(local_path(path)):
                return path, record.payload
    return None
