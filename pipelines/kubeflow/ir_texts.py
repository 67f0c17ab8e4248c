"""The texts of a pipeline's IR, each with the field that holds it.

Options are texts, protos, or protos and JSON within texts; what looks for a secret or a path
must see all of them.
"""

import json
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

from google.protobuf import any_pb2
from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message
from tfx.proto.orchestration import pipeline_pb2

from penstock.pipelines.kubeflow import ir as irs
from penstock.pipelines.kubeflow.proto_texts import is_map, unpack_any

# Fields of the IR that say nothing to who wrote the pipeline.
_PASSED_THROUGH = (
    "parameters",
    "field_value",
    "string_value",
    "proto_value",
    "runtime_parameter",
    "default_value",
)
_WITH_TEXTS = (
    FieldDescriptor.TYPE_STRING,
    FieldDescriptor.TYPE_BYTES,
    FieldDescriptor.TYPE_MESSAGE,
)


class Text(NamedTuple):
    """A text of a node, and the field where it stands, for messages."""

    node_id: str
    field: str
    value: str


def node_texts(ir: pipeline_pb2.Pipeline) -> Iterator[Text]:
    """All texts of all nodes, those within JSON and `Any` and of their executors too."""
    deployment = irs.deployment_config(ir)
    for node in irs.nodes(ir):
        node_id = node.node_info.id
        found = [*_of_message(node, "")]
        for specs in (deployment.executor_specs, deployment.custom_driver_specs):
            if node_id in specs:
                found.extend(_of_message(specs[node_id], "executor"))
        yield from (Text(node_id, field, value) for field, value in found)


def _of_message(message: Message, path: str) -> Iterator[tuple[str, str]]:
    """Field and value of each text."""
    if isinstance(message, any_pb2.Any):
        # Of a type that is not known here, the bytes.
        yield from _of_value(unpack_any(message) or message.value, path)
        return
    if isinstance(message, pipeline_pb2.RuntimeParameter):
        path = _join(path, message.name)
    for field, value in message.ListFields():
        if is_map(field):
            for key, item in value.items():
                yield from _of_value(item, _join(path, str(key)))
        elif field.type in _WITH_TEXTS:
            place = path if field.name in _PASSED_THROUGH else _join(path, field.name)
            yield from _of_value(value, place)


def _of_value(value: Any, path: str) -> Iterator[tuple[str, str]]:
    """The same of what a field holds, or of what JSON says."""
    loaded = _loads(value) if isinstance(value, str) else value
    if isinstance(loaded, Message):
        yield from _of_message(loaded, path)
    elif isinstance(loaded, bytes):
        yield path, loaded.decode("latin-1")
    elif isinstance(loaded, dict):
        for key, item in loaded.items():
            yield path, str(key)
            yield from _of_value(item, _join(path, str(key)))
    elif isinstance(loaded, Sequence) and not isinstance(loaded, str):
        previous = ""
        for item in loaded:
            # An argument and its value may be two items.
            is_value = isinstance(item, str) and previous.startswith("-")
            yield from _of_value(item, _join(path, previous) if is_value else path)
            previous = item if isinstance(item, str) and "=" not in item else ""
    elif not isinstance(loaded, bool):
        yield path, str(loaded)


def _loads(text: str) -> Any:
    """What a JSON object or list says; any other text as it is."""
    with suppress(ValueError):
        if text.lstrip()[:1] in ("{", "["):
            return json.loads(text)
    return text


def _join(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name
