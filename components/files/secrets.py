"""Detects secrets in clear text: by their names, in addresses, and by the prefixes of tokens.

Options, addresses, commands and notes end up in files, logs and metadata that other people read.
All checks for secrets use the patterns of this module. A text that only names a secret
(`${DB_PASSWORD}`) contains none.
"""

import re
from collections.abc import Iterator
from urllib.parse import unquote_plus

# Values that are not secret: placeholders (${NAME}, $NAME, <name>, {name}, ***, xxx), constants
# (null, true), and the empty text.
_NO_VALUE = re.compile(r"^(\$.*|<.*>|\{.*\}|%\(.*|\*+|x+|none|null|true|false|)$", re.IGNORECASE)
_KEY = r"(?:api|access|account|private|secret|subscription)[-_]?key"
_NAME = (
    rf"(?:[\w.-]*(?:password|passwd|passphrase|secret|{_KEY}(?:[-_]?id)?|credentials?"
    rf"|(?:{_KEY}|credentials?)[-_]?(?:base64|b64|info)|connection[-_]?string)"
    r"|(?:[\w.-]*[_-])?pwd|jwt"
    r"|(?:[\w.-]*(?:auth|access|api|refresh|id|bearer|session|security|sas)[-_]?)?token)"
)
# Before a colon, a name that ends in `pass` matches only in quotes: `pass` is a common word.
_PASS = r"(?:[\w.-]*[_-])?pass"
_SECRET_NAME = re.compile(rf"-*(?:{_NAME}|{_PASS})", re.IGNORECASE)
# Names of address parameters with a secret value. Some, such as `code` and `key`, match neither
# `_NAME` nor `_PASS`, because outside an address such a name often has a value that is not secret.
_PARAMETER = re.compile(
    rf"{_NAME}|[\w.-]*(?:pass|pwd|token|signature|credential)|passcode|pw|pswd|key|ssl_?key|key_?file|auth|code|sig",
    re.IGNORECASE,
)
# A value: in quotes (which may be escaped, as in JSON), in angle brackets, or up to a delimiter.
_VALUE = r"(?:\\*\"([^\"]*[^\"\\])|\\*'([^']*[^'\\])|(<[^>]*>|[^\s\"'&;,)\]}]+))"
# In each pattern, the last matched group is the value.
_ASSIGNMENTS = (
    re.compile(rf"(?<![\w.-])(?:--)?({_NAME})(?:\\*[\"'])?\s*[=:]\s*{_VALUE}", re.IGNORECASE),
    re.compile(rf"(?<![\w.-])({_PASS})(?:\s*=|\\*[\"']\s*:)\s*{_VALUE}", re.IGNORECASE),
    re.compile(rf"(?<!\S)--({_NAME}|{_PASS})\s+(?!-){_VALUE}", re.IGNORECASE),
)
# Every name that `_ASSIGNMENTS` matches contains a match of this pattern. It is searched for first,
# which takes a twentieth of the time of a search for those patterns.
_PART_OF_NAME = re.compile(
    rf"pass|secret|{_KEY}|credential|connection|pwd|jwt|token", re.IGNORECASE
)
_QUERY = re.compile(r"://[^\s'\"?#;]*[?#;]([^\s'\"]+)")
_QUERY_VALUE = re.compile(r"([^&?;#=]+)=([^&;#]*[^&;#,)\]}])")
_FILE = re.compile(r"^[~.]{0,2}/[\w./ -]+\.\w{1,6}$")
_DATABASES = r"(?:postgres\w*|mysql|mariadb|mssql|oracle|snowflake|mongodb|redis)(?:\+\w+)?"
# Tokens of services, by their prefixes.
_TOKENS = "|".join(
    (
        r"dapi[0-9a-f]{32}",
        r"(?:[rs]k_(?:live|test)|whsec)_[0-9A-Za-z]{16,}",
        r"npm_[0-9A-Za-z]{36,}",
        r"pypi-[\w-]{16,}",
        r"SG\.[\w-]{16,}\.[\w-]{16,}",
        r"GOOG1?[0-9A-Z]{20,}",
        r"(?:dckr_pat_|shpat_|hvs\.|dop_v1_|glsa_|lin_api_|sq0csp-|ATATT3|glpat-)[\w-]{20,}",
        r"gh[opsur]_[0-9A-Za-z]{36,}|github_pat_\w{22,}",
        r"xox[abprs]-[0-9A-Za-z-]{10,}",
        r"AIza[\w-]{35}|ya29\.[\w-]{20,}",
        r"hf_[0-9A-Za-z]{30,}|sk-[\w-]{20,}",
        r"eyJ[\w-]{10,}\.eyJ[\w-]{10,}\.[\w-]*",
    )
)
# Kinds of secrets by their form; if the pattern has a group, the group is the secret part of the
# text.
_FORMS = tuple(
    (kind, re.compile(form))
    for kind, form in (
        ("an AWS access key", r"\b(?:AKIA|ASIA)[0-9A-Z]{16}\b"),
        ("a private key", r"-----BEGIN (?:[A-Z]+ )*PRIVATE KEY|\bAGE-SECRET-KEY-1[0-9A-Z]{20,}"),
        ("a shared access signature", r"\bSharedAccessSignature\s*[= ]\s*[^\s;]{8,}"),
        ("a token of a service", rf"\b(?:{_TOKENS})"),
        ("a web hook", r"\bhttps://hooks\.slack\.com/(?:services|workflows)/[\w/-]{8,}"),
        ("a web hook", r"\bhttps://[\w.]*discord\w*\.com/api/webhooks/\d+/[\w-]{8,}"),
        ("a bearer token", r"(?i:\bbearer)\s+[0-9A-Za-z._~+/-]{16,}"),
        ("a login of HTTP", r"(?i:\bauthorization\W+basic)\s+[0-9A-Za-z+/=]{4,}"),
        ("a password in an address", r"(?i:\b[a-z][a-z0-9+.-]*:)//[^/\s:@'\"]*:([^/\s@'\"]+)@"),
        # For database drivers, the login ends at the last @.
        ("a password in an address", rf"\b{_DATABASES}://[^/\s:@'\"]*:([^\s?'\"]+)@"),
        ("a user name in a web address", r"(?i:\bhttps?)://([^/\s:@'\"?#]+):?@"),
    )
)
# A block of text: at most 8,192 characters, ending at a blank or comma if there is one.
_BLOCK = re.compile(r".{1,8192}(?:[\s,]|$)|.{1,8192}", re.DOTALL)


def secret_kind(name: str, value: str) -> str | None:
    """Returns the kind of secret that a text looks like, such as "a bearer token", or None.

    `name` is the name of the text, such as `source.password`; empty if it has none.
    """
    for kind, _ in _secrets(value):
        return kind
    last_name = name.rsplit(".", 1)[-1]
    if _SECRET_NAME.fullmatch(last_name) and _is_value(value):
        return f"the value of {last_name.lstrip('-')!r}"
    return None


def hide_secret(name: str, value: str) -> str:
    """Returns `value`, or `***` if it looks like a secret in clear text."""
    return "***" if secret_kind(name, value) else value


def without_secrets(text: str) -> str:
    """Returns a long text, such as a log line, with `***` instead of each secret.

    In an address, all values of the query are hidden. Some patterns take quadratic time on text
    without blanks, so text is searched block by block.
    """
    return "".join(map(_masked, _BLOCK.findall(text)))


def _masked(text: str) -> str:
    spans = [span for _, span in _secrets(text)] + [span for _, _, span in _query_values(text)]
    parts, at = [], 0
    for begin, end in sorted(spans, key=lambda span: (span[0], -span[1])):
        if begin >= at:
            parts += [text[at:begin], "***"]
            at = end
    return "".join((*parts, text[at:]))


def _secrets(text: str) -> Iterator[tuple[str, tuple[int, int]]]:
    """Yields kind and span of each secret; spans may overlap."""
    for kind, form in _FORMS:
        for found in form.finditer(text):
            if not (form.groups and _NO_VALUE.match(found[1])):
                yield kind, found.span(form.groups)
    for name, value, span in _query_values(text):
        secret = _PARAMETER.fullmatch(name) and not _FILE.match(value)
        # A value may itself be a list of parameters, such as ODBC's `odbc_connect=...;PWD=...`.
        if secret or secret_kind("", value):
            yield f"the value of {name!r}", span
    for pattern in _ASSIGNMENTS if _PART_OF_NAME.search(text) else ():
        for found in pattern.finditer(text):
            group = found.lastindex or 0
            if _is_value(found[group]):
                yield f"the value of {found[1].lstrip('-.')!r}", found.span(group)


def _query_values(text: str) -> Iterator[tuple[str, str, tuple[int, int]]]:
    """Yields name, value and the value's span for each parameter of the addresses in a text."""
    for query in _QUERY.finditer(text) if "://" in text else ():
        for found in _QUERY_VALUE.finditer(text, *query.span(1)):
            name, value = unquote_plus(found[1]), unquote_plus(found[2])
            if not _NO_VALUE.match(value):
                yield name, value, found.span(2)


def _is_value(text: str) -> bool:
    return len(text) >= 3 and not _NO_VALUE.match(text)
