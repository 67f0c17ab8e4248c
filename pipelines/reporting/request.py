"""A request that a model answers, to copy: for Python, and for TensorFlow Serving's REST API."""

import base64
import json
import keyword
import math
import posixpath
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

from penstock.components.tfrecord.example_proto import parse_example
from penstock.components.tfrecord.records import read_records
from penstock.pipelines.reporting.artifact_files import names_in, split_folder, splits_in
from penstock.pipelines.reporting.model_facts import Signature

# More would be no text to copy: an image is read from its shard instead.
_LONGEST_RECORD_BYTES = 4096


@dataclass(frozen=True)
class Request:
    """A request as two texts to copy.

    Attributes:
        signature: The function that is asked.
        python: A program that loads the model and prints its answer.
        rest: The body of a POST to `/v1/models/NAME:predict`; None where it would be too long.
    """

    signature: str
    python: str
    rest: str | None


@dataclass(frozen=True)
class Sample:
    """A record to ask with: the shard that holds it as its first, and the record."""

    shard: str
    record: bytes


def sample_record(examples: str) -> Sample | None:
    """The first record of the last split of an `Examples` artifact; None where it has none."""
    for split in reversed(splits_in(examples)):
        folder = split_folder(examples, split)
        for name in names_in(folder):
            path = posixpath.join(folder, name)
            for record in read_records(path):
                return Sample(path, record.payload)
    return None


def make_request(
    signature: Signature, model: str, sample: Sample | None, *, labels: Collection[str]
) -> Request | None:
    """A request of one raw row; None where the signature does not take serialized Examples.

    Left out are the `labels`, which a client does not know.
    """
    takes_examples = len(signature.inputs) == 1 and signature.inputs[0].dtype == "string"
    if not takes_examples or sample is None:
        return None
    return _of_example(signature, model, sample, labels)


def _of_example(
    signature: Signature, model: str, sample: Sample, labels: Collection[str]
) -> Request | None:
    name = signature.inputs[0].name
    message: Any = parse_example(sample.record)
    if message is None:
        return None
    ask = f"print(model.signatures[{signature.name!r}]({_argument(name, 'tf.constant([record])')}))"
    load = f"model = tf.saved_model.load({model!r})"
    if len(sample.record) > _LONGEST_RECORD_BYTES:
        read = f"record = next(iter(tf.data.TFRecordDataset({sample.shard!r}))).numpy()"
        return Request(
            signature.name, "\n".join(["import tensorflow as tf", "", read, load, ask]), None
        )
    row = _row(message.context.feature, labels)
    python = "\n".join(
        [
            "import tensorflow as tf",
            "",
            "row = {",
            *(f"    {feature!r}: {_literal(value)}," for feature, value in row.items()),
            "}",
            "features = tf.train.Features(feature=row)",
            "record = tf.train.Example(features=features).SerializeToString()",
            load,
            ask,
        ]
    )
    record = _serialized(message, labels)
    instance = {name: {"b64": base64.b64encode(record).decode()}}
    body = {"signature_name": signature.name, "instances": [instance]}
    return Request(signature.name, python, json.dumps(body))


def _row(features: Any, labels: Collection[str]) -> dict[str, tuple[str, list[Any]]]:
    """Kind of list and values by feature, those without values left out."""
    row = {}
    for name in sorted(features):
        kind = features[name].WhichOneof("kind")
        if kind and name not in labels:
            row[name] = (kind, list(getattr(features[name], kind).value))
    return row


def _literal(value: tuple[str, list[Any]]) -> str:
    kind, values = value
    list_type = {"bytes_list": "BytesList", "float_list": "FloatList", "int64_list": "Int64List"}
    # float32 as short as it can be told apart.
    shown = [_number(float(f"{v:.9g}")) if kind == "float_list" else repr(v) for v in values]
    return f"tf.train.Feature({kind}=tf.train.{list_type[kind]}(value=[{', '.join(shown)}]))"


def _number(value: float) -> str:
    """As Python reads it; NaN and infinities have no literal."""
    return repr(value) if math.isfinite(value) else f'float("{value}")'


def _argument(name: str, value: str) -> str:
    """An argument of a call; a signature may name its inputs as Python could not."""
    is_python = name.isidentifier() and not keyword.iskeyword(name)
    return f"{name}={value}" if is_python else f"**{{{name!r}: {value}}}"


def _serialized(message: Any, labels: Collection[str]) -> bytes:
    """As an Example: its features are the context of a SequenceExample on the wire."""
    for label in labels:
        if label in message.context.feature:
            del message.context.feature[label]
    serialized: bytes = message.SerializeToString(deterministic=True)
    return serialized
