"""The texts of a pipeline's IR, each with the field that holds it.

Options are texts, protos, or protos and JSON within texts; what looks for a secret or a path
must see all of them.
"""

import json
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from google.protobuf import any_pb2
from google.protobuf.message import Message
from tfx.proto.orchestration import pipeline_pb2

from penstock.pipelines.kubeflow import ir as irs
from penstock.pipelines.kubeflow.proto_texts import is_map, unpack_any

# Fields of the IR that say nothing to who wrote the pipeline.
_PASSED_THROUGH = frozenset(
    (
        "parameters",
        "field_value",
        "string_value",
        "proto_value",
        "runtime_parameter",
        "default_value",
    )
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
        yield from _of_any(message, path)
        return
    if isinstance(message, pipeline_pb2.RuntimeParameter):
        path = _join(path, message.name)
    for field, value in message.ListFields():
        place = path if field.name in _PASSED_THROUGH else _join(path, field.name)
        if is_map(field):
            for key, item in value.items():
                yield from _of_value(item, _join(path, str(key)))
        elif isinstance(value, (str, bytes, Message)):
            yield from _of_value(value, place)
        elif isinstance(value, Sequence):
            yield from _of_list(value, place)


def _of_list(values: Any, path: str) -> Iterator[tuple[str, str]]:
    previous = ""
    for value in values:
        if isinstance(value, str) and previous.startswith("-"):
            # An argument and its value as two items.
            yield from _of_value(value, _join(path, previous))
        else:
            yield from _of_value(value, path)
        previous = value if isinstance(value, str) and "=" not in value else ""


def _of_value(value: Any, path: str) -> Iterator[tuple[str, str]]:
    if isinstance(value, Message):
        yield from _of_message(value, path)
    elif isinstance(value, bytes):
        yield path, value.decode("latin-1")
    elif isinstance(value, str):
        yield from _of_json(_loads(value), value, path)


def _of_json(loaded: Any, raw: str, path: str) -> Iterator[tuple[str, str]]:
    if isinstance(loaded, dict):
        for key, item in loaded.items():
            yield path, str(key)
            yield from _of_json(_inner(item), str(item), _join(path, str(key)))
    elif isinstance(loaded, list):
        for item in loaded:
            yield from _of_json(_inner(item), str(item), path)
    elif not isinstance(loaded, bool):
        yield path, raw


def _inner(item: Any) -> Any:
    return _loads(item) if isinstance(item, str) else item


def _loads(text: str) -> Any:
    """What a JSON object or list says; any other text as it is."""
    if text.lstrip()[:1] in ("{", "["):
        try:
            return json.loads(text)
        except ValueError:
            pass
    return text


def _of_any(message: any_pb2.Any, path: str) -> Iterator[tuple[str, str]]:
    inner = unpack_any(message)
    if inner is None:
        yield path, message.value.decode("latin-1")
    else:
        yield from _of_message(inner, path)


def _join(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name
