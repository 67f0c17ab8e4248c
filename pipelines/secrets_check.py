"""Secrets that stand in clear text in a pipeline: found before they reach a file that others read.

A compiled pipeline is stored by Kubeflow, shown in its UI and kept in git. Passwords belong in a
Kubernetes secret or an environment variable of the container; the pipeline names them only.
"""

import re

from tfx.proto.orchestration import pipeline_pb2

from penstock.components.errors import UsageError
from penstock.pipelines.ir_texts import Text, node_texts

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


def check_no_secrets(ir: pipeline_pb2.Pipeline) -> None:
    """Refuse a pipeline that holds a secret in clear text.

    All options of all nodes are looked at: queries, custom_config, Beam arguments, addresses.

    Raises:
        UsageError: There is one; says in which node and field and what it looks like, but not
            its value.
    """
    for text in node_texts(ir):
        if kind := _secret_in(text):
            raise UsageError(
                f"node {text.node_id!r}, {text.field}: looks like {kind} in clear text; "
                "take it from an environment variable that a Kubernetes secret fills"
            )


def hide_secret(field: str, value: str) -> str:
    """`value`, or `***` where it looks like a secret in clear text.

    Args:
        field: What the value is called, `source.password`.
        value: A text.
    """
    return "***" if _secret_in(Text("", field, value)) else value


def _secret_in(text: Text) -> str | None:
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
