"""Secrets that stand in clear text in a pipeline: found before they reach a file that others read.

A compiled pipeline is stored by Kubeflow, shown in its UI and kept in git. Passwords belong in a
Kubernetes secret or an environment variable of the container; the pipeline names them only.
"""

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from google.protobuf import any_pb2, symbol_database
from google.protobuf.message import DecodeError, Message
from tfx.proto.orchestration import pipeline_pb2

from penstock.components.errors import UsageError
from penstock.pipelines import ir as irs

# What stands for a value without being one: empty, ${NAME}, $NAME, <name>, {name}, ***, xxx.
_NO_VALUE = re.compile(r"^(\$.*|<.*>|\{.*\}|%\(.*|\*+|x+|none|null|true|false|)$", re.IGNORECASE)
_SECRET_WORD = (
    r"(?:[\w.-]*(?:password|passwd|passphrase|secret|api_?key|apikey|access_?key|private_?key"
    r"|credentials?)|pwd|(?:[\w.-]*(?:auth|access|api|refresh|id|bearer|session)_?)?token)"
)
_SECRET_KEY = re.compile(rf"^-*{_SECRET_WORD}$", re.IGNORECASE)
_ASSIGNMENT = re.compile(
    rf"(?:^|[^\w.-])({_SECRET_WORD})\s*[=:]\s*(\"[^\"]*\"|'[^']*'|<[^>]*>|[^\s\"'&;,)\]}}]+)",
    re.IGNORECASE,
)
_IDENTIFIED_BY = re.compile(r"\bidentified\s+by\s+('[^']+'|\"[^\"]+\")", re.IGNORECASE)
_KNOWN_FORMS = {
    "an AWS access key": re.compile(r"\b(?:AKIA|ASIA)[0-9A-Z]{16}\b"),
    "a private key": re.compile(r"-----BEGIN (?:[A-Z]+ )*PRIVATE KEY-----"),
    "a GitHub token": re.compile(r"\b(?:gh[opsur]_[0-9A-Za-z]{36,}|github_pat_\w{22,})"),
    "a GitLab token": re.compile(r"\bglpat-[\w-]{20,}"),
    "a Slack token": re.compile(r"\bxox[abprs]-[0-9A-Za-z-]{10,}"),
    "a Google API key": re.compile(r"\bAIza[0-9A-Za-z_-]{35}"),
    "a Google access token": re.compile(r"\bya29\.[0-9A-Za-z_-]{20,}"),
    "a Hugging Face token": re.compile(r"\bhf_[0-9A-Za-z]{30,}"),
    "an OpenAI or Anthropic key": re.compile(r"\bsk-[0-9A-Za-z_-]{20,}"),
    "a JSON web token": re.compile(r"\beyJ[\w-]{10,}\.eyJ[\w-]{10,}\."),
    "a bearer token": re.compile(r"\bbearer\s+[0-9A-Za-z._~+/-]{16,}", re.IGNORECASE),
}
_URL_LOGIN = re.compile(r"\b[a-z][a-z0-9+.-]*://[^/\s:@'\"]*:([^/\s@'\"]+)@", re.IGNORECASE)

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


@dataclass(frozen=True)
class _Text:
    """A text of the pipeline, and the field that holds it."""

    field: str
    value: str


def check_no_secrets(ir: pipeline_pb2.Pipeline) -> None:
    """Refuse a pipeline that holds a secret in clear text.

    All options of all nodes are looked at: queries, custom_config, Beam arguments, addresses.

    Raises:
        UsageError: There is one; says in which node and field and what it looks like, but not
            its value.
    """
    deployment = irs.deployment_config(ir)
    for node in irs.nodes(ir):
        node_id = node.node_info.id
        texts = [*_texts(node, "")]
        for specs in (deployment.executor_specs, deployment.custom_driver_specs):
            if node_id in specs:
                texts.extend(_texts(specs[node_id], "executor"))
        for text in texts:
            if kind := _secret_in(text):
                raise UsageError(
                    f"node {node_id!r}, {text.field}: looks like {kind} in clear text; "
                    "take it from an environment variable that a Kubernetes secret fills"
                )


def _secret_in(text: _Text) -> str | None:
    for kind, form in _KNOWN_FORMS.items():
        if form.search(text.value):
            return kind
    if any(not _NO_VALUE.match(found) for found in _URL_LOGIN.findall(text.value)):
        return "a password in an address"
    if _IDENTIFIED_BY.search(text.value):
        return "a password"
    last_key = text.field.rsplit(".", 1)[-1]
    if _SECRET_KEY.match(last_key) and _is_value(text.value):
        return f"the value of {last_key.lstrip('-')!r}"
    for name, value in _ASSIGNMENT.findall(text.value):
        if _is_value(value.strip("\"'")):
            return f"the value of {name.lstrip('-.')!r}"
    return None


def _is_value(text: str) -> bool:
    return len(text) >= 3 and not _NO_VALUE.match(text)


def _texts(message: Message, path: str) -> Iterator[_Text]:
    """All texts in a message, those within JSON and `Any` too."""
    if isinstance(message, any_pb2.Any):
        yield from _texts_of_any(message, path)
        return
    if isinstance(message, pipeline_pb2.RuntimeParameter):
        path = _join(path, message.name)
    for field, value in message.ListFields():
        place = path if field.name in _PASSED_THROUGH else _join(path, field.name)
        if field.message_type is not None and field.message_type.GetOptions().map_entry:
            for key, item in value.items():
                yield from _texts_of_value(item, _join(path, str(key)))
        elif isinstance(value, (str, bytes, Message)):
            yield from _texts_of_value(value, place)
        elif isinstance(value, Sequence):
            yield from _texts_of_list(value, place)


def _texts_of_list(values: Any, path: str) -> Iterator[_Text]:
    previous = ""
    for value in values:
        if isinstance(value, str) and previous.startswith("-"):
            # An argument and its value as two items.
            yield from _texts_of_value(value, _join(path, previous))
        else:
            yield from _texts_of_value(value, path)
        previous = value if isinstance(value, str) and "=" not in value else ""


def _texts_of_value(value: Any, path: str) -> Iterator[_Text]:
    if isinstance(value, Message):
        yield from _texts(value, path)
    elif isinstance(value, bytes):
        yield _Text(path, value.decode("latin-1"))
    elif isinstance(value, str):
        yield from _texts_of_json(_loads(value), value, path)


def _texts_of_json(loaded: Any, raw: str, path: str) -> Iterator[_Text]:
    if isinstance(loaded, dict):
        for key, item in loaded.items():
            yield _Text(path, str(key))
            yield from _texts_of_json(_inner(item), str(item), _join(path, str(key)))
    elif isinstance(loaded, list):
        for item in loaded:
            yield from _texts_of_json(_inner(item), str(item), path)
    elif not isinstance(loaded, bool):
        yield _Text(path, raw)


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


def _texts_of_any(message: any_pb2.Any, path: str) -> Iterator[_Text]:
    name = message.type_url.rsplit("/", 1)[-1]
    try:
        inner = symbol_database.Default().GetSymbol(name)()
        message.Unpack(inner)
    except (KeyError, DecodeError):
        yield _Text(path, message.value.decode("latin-1"))
        return
    yield from _texts(inner, path)


def _join(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name
