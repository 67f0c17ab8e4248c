"""Detects secrets in clear text, by their names, their forms and their entropy.

Options, addresses, commands and notes end up in files, logs and metadata that others read. All
checks share the patterns here. A text that only names a secret (`${DB_PASSWORD}`) contains none.
"""

import math
import re
from collections import Counter
from collections.abc import Iterator
from urllib.parse import unquote_plus

# Values that are placeholders: empty, ${NAME}, $NAME, <name>, {name}, ***, xxx.
_NO_VALUE = re.compile(r"^(\$.*|<.*>|\{.*\}|%\(.*|\*+|x+|none|null|true|false|)$", re.IGNORECASE)
_KEY = r"(?:api|access|account|private|secret|subscription)[-_]?key"
_SECRET_WORD = (
    rf"(?:[\w.-]*(?:password|passwd|passphrase|secret|{_KEY}(?:[-_]?id)?|credentials?"
    rf"|(?:{_KEY}|credentials?)[-_]?(?:base64|b64|info)|connection[-_]?string)"
    r"|(?:[\w.-]*[_-])?pwd|jwt"
    r"|(?:[\w.-]*(?:auth|access|api|refresh|id|bearer|session|security|sas)[-_]?)?token)"
)
# Not matched before a colon, where it is a common word of plain texts.
_PASS = r"(?:[\w.-]*[_-])?pass"
# Only for parameters of an address: elsewhere, these words often name things that are not secret.
_PARAMETER = (
    rf"(?:{_SECRET_WORD}|[\w.-]*(?:pass|pwd|token|signature|credential)|key|auth|jwt|code|sig)"
)
_SECRET_NAME = re.compile(rf"^-*(?:{_SECRET_WORD}|{_PASS})$", re.IGNORECASE)
_SECRET_PARAMETER = re.compile(rf"^{_PARAMETER}$", re.IGNORECASE)
_VALUE = r"(\"[^\"]*\"|'[^']*'|<[^>]*>|[^\s\"'&;,)\]}]+)"
_ASSIGNMENTS = (
    re.compile(rf"(?:^|[^\w.-])({_SECRET_WORD})\s*[=:]\s*{_VALUE}", re.IGNORECASE),
    re.compile(rf"(?:^|[^\w.-])({_PASS})\s*=\s*{_VALUE}", re.IGNORECASE),
    re.compile(rf"(?:^|\s)--({_SECRET_WORD}|{_PASS})\s+(?!-){_VALUE}", re.IGNORECASE),
    re.compile(rf"(?<=://)[^\s'\"]*?[?&#;]({_PARAMETER})={_VALUE}", re.IGNORECASE),
)
# Options in logs: a quoted key, whose quotes may be escaped, and its quoted value.
_IN_JSON = re.compile(
    rf"(?:^|[^\w.-])({_SECRET_WORD}|{_PASS})\\*[\"']\s*:\s*\\*[\"']([^\"'\\]+)", re.IGNORECASE
)
# A part of each name above, found in a twentieth of the time that the patterns take.
_PART_OF_NAME = re.compile(
    rf"pass|secret|{_KEY}|credential|connection|pwd|jwt|token|(?:key|auth|code|sig|signature)=",
    re.IGNORECASE,
)
# Drivers of databases name their parameters as they like, so each value in the query of such an
# address counts as secret but for parameters that are known to hold none, and for names of files.
_DATABASE_QUERY = re.compile(
    r"\b(?!(?:git\+)?(?:s3[an]?|gs|gcs|hdfs|https?|file|ftp)://)[a-z][a-z0-9+.-]*://"
    r"[^\s'\"?]*\?([^\s'\"]+)",
    re.IGNORECASE,
)
_QUERY_VALUE = re.compile(r"([^&;#=]+)=([^&;#]+)")
_HARMLESS = re.compile(
    r"""
    applicationintent | applicationname | appname | arraysize | authmechanism | authsource
    | autocommit | cache | catalog | channelbinding | charset | clientencoding | collation
    | connecttimeout | database | dataset | datasetid | db | dbname | driver | encrypt
    | gssencmode | host | httppath | immutable | isolationlevel | keepalives | listrowspagesize
    | localinfile | location | logintimeout | maximumbytesbilled | mode | multisubnetfailover
    | nolock | options | passfile | port | priority | readonly | readpreference | readtimeout
    | region | replicaset | retrywrites | role | schema | searchpath | servicename | sid | ssl
    | sslcert | sslminprotocolversion | sslmode | sslrootcert | targetsessionattrs | timeout
    | timezone | tls | trustedconnection | trustservercertificate | unixsocket | uri
    | usequerycache | user | username | warehouse | writetimeout
    """,
    re.IGNORECASE | re.VERBOSE,
)
_FILE = re.compile(r"^[~.]{0,2}/[\w./ -]+\.\w{1,6}$")
_IDENTIFIED_BY = re.compile(r"\bidentified\s+by\s+('[^']+'|\"[^\"]+\")", re.IGNORECASE)
_KNOWN_FORMS = {
    "an AWS access key": re.compile(r"\b(?:AKIA|ASIA)[0-9A-Z]{16}\b"),
    "a private key": re.compile(
        r"-----BEGIN (?:[A-Z]+ )*PRIVATE KEY(?: BLOCK)?-----|\bAGE-SECRET-KEY-1[0-9A-Z]{20,}"
    ),
    "a shared access signature": re.compile(r"\bSharedAccessSignature\s*[= ]\s*[^\s;]{8,}"),
    "a Databricks token": re.compile(r"\bdapi[0-9a-f]{32}(?:-\d+)?\b"),
    "a Stripe key": re.compile(r"\b(?:[rs]k_(?:live|test)|whsec)_[0-9A-Za-z]{16,}"),
    "an npm token": re.compile(r"\bnpm_[0-9A-Za-z]{36,}"),
    "a PyPI token": re.compile(r"\bpypi-[\w-]{16,}"),
    "a SendGrid key": re.compile(r"\bSG\.[\w-]{16,}\.[\w-]{16,}"),
    "a Google HMAC key": re.compile(r"\bGOOG1?[0-9A-Z]{20,}"),
    "a web hook": re.compile(
        r"\bhttps://(?:hooks\.slack\.com/(?:services|workflows)/[\w/-]{8,}"
        r"|(?:\w+\.)?discord(?:app)?\.com/api/webhooks/\d+/[\w-]{8,})"
    ),
    "a token of a service": re.compile(
        r"\b(?:dckr_pat_|shpat_|hvs\.|dop_v1_|glsa_|lin_api_|sq0csp-|ATATT3)[\w-]{20,}"
    ),
    "a GitHub token": re.compile(r"\b(?:gh[opsur]_[0-9A-Za-z]{36,}|github_pat_\w{22,})"),
    "a GitLab token": re.compile(r"\bglpat-[\w-]{20,}"),
    "a Slack token": re.compile(r"\bxox[abprs]-[0-9A-Za-z-]{10,}"),
    "a Google API key": re.compile(r"\bAIza[0-9A-Za-z_-]{35}"),
    "a Google access token": re.compile(r"\bya29\.[0-9A-Za-z_-]{20,}"),
    "a Hugging Face token": re.compile(r"\bhf_[0-9A-Za-z]{30,}"),
    "an OpenAI or Anthropic key": re.compile(r"\bsk-[0-9A-Za-z_-]{20,}"),
    "a JSON web token": re.compile(r"\beyJ[\w-]{10,}\.eyJ[\w-]{10,}\."),
    "a bearer token": re.compile(r"\bbearer\s+[0-9A-Za-z._~+/-]{16,}", re.IGNORECASE),
    "a login of HTTP": re.compile(r"\bauthorization\W+basic\s+[0-9A-Za-z+/=]{4,}", re.IGNORECASE),
}
_LOGINS = (
    re.compile(r"\b[a-z][a-z0-9+.-]*://[^/\s:@'\"]*:([^/\s@'\"]+)@", re.IGNORECASE),
    # Database drivers end the login at the last @, whatever precedes it.
    re.compile(
        r"\b(?:postgres\w*|mysql|mariadb|mssql|oracle|snowflake|mongodb|redis)(?:\+\w+)?://"
        r"[^/\s:@'\"]*:([^\s?'\"]+)@",
        re.IGNORECASE,
    ),
    re.compile(r"\boracle(?:\+\w+)?://[^/\s:@'\"]+/([^/\s@'\"]+)@", re.IGNORECASE),
    re.compile(r"(?:^|[\s'\"=(])//[^/\s:@'\"]+:([^/\s@'\"]+)@"),
    re.compile(r"(?:^|[\s'\"=])[^\s:@/'\"]+:([^\s@'\"]+)@(?:tcp|udp|unix)\("),  # Go's drivers
)
_COMMANDS = (
    re.compile(r"\bcurl\b[^\n]*?\s(?:-u|--user)[ =]*['\"]?[^\s:'\"]+:([^\s'\"]+)"),
    re.compile(r"\b(?:mysql|mysqldump|mysqladmin|mariadb)\b[^\n]*?\s-p([^\s'\"]+)"),
    # Only options of these commands: `-p 22` after `sshpass -e ssh` or a `;` is no password.
    re.compile(r"\bsshpass\s+(?:-v\s+)?-p\s*['\"]?([^\s'\"]+)"),
    re.compile(r"\bdocker\s+login\b[^\n;|&]*?\s-p\s*['\"]?([^\s'\"]+)"),
    re.compile(r"\bredis-cli\b[^\n;|&]*?\s-a\s*['\"]?([^\s'\"]+)"),
)
# AWS secret keys have no other form than 40 random characters of base64. The characters' own
# frequencies give them over 4.4 bits each; paths and words have about 4, hex digests at most 4.
_BARE_KEY = re.compile(r"(?<![\w/+=.-])[0-9A-Za-z/+]{40}(?![\w/+=.-])")
_RANDOM_BITS = 4.4
# A block of text: at most 8 KiB, up to a blank or comma if there is one.
_BLOCK = re.compile(r".{1,8192}(?:[\s,]|$)|.{1,8192}", re.DOTALL)
# The user in a web address is often a token.
_WEB_USER = re.compile(r"\bhttps?://([^/\s:@'\"?#]+)@", re.IGNORECASE)


def secret_kind(name: str, value: str) -> str | None:
    """Returns the kind of secret that a text looks like, "a GitHub token"; None if it does not.

    `name` is the name of the text, such as `source.password`; empty if it has none.
    """
    for kind, form in _KNOWN_FORMS.items():
        if form.search(value):
            return kind
    if any(not _NO_VALUE.match(found) for login in _LOGINS for found in login.findall(value)):
        return "a password in an address"
    if any(not _NO_VALUE.match(found) for found in _WEB_USER.findall(value)):
        return "a user name in a web address"
    if _IDENTIFIED_BY.search(value) or any(
        not _NO_VALUE.match(found) for command in _COMMANDS for found in command.findall(value)
    ):
        return "a password"
    if any(map(_is_random, _BARE_KEY.findall(value))):
        return "an AWS secret key"
    for key, _ in _query_secrets(value):
        return f"the value of {key!r}"
    last_name = name.rsplit(".", 1)[-1]
    if _SECRET_NAME.match(last_name) and _is_value(value):
        return f"the value of {last_name.lstrip('-')!r}"
    for assignment in _ASSIGNMENTS:
        for key, assigned in assignment.findall(value):
            if _is_value(assigned.strip("\"'")):
                return f"the value of {key.lstrip('-.')!r}"
    return None


def is_secret_parameter(name: str) -> bool:
    """Returns whether the name of an address's parameter, such as `sig`, suggests a secret."""
    return bool(_SECRET_PARAMETER.match(name))


def without_secrets(text: str) -> str:
    """Returns a long text, such as a log line, with `***` in place of each secret.

    Some patterns take quadratic time on text without blanks, so the text is searched in blocks.
    """
    return "".join(map(_masked, _BLOCK.findall(text)))


def _masked(text: str) -> str:
    for begin, end in sorted(_places(text), reverse=True):
        text = f"{text[:begin]}***{text[end:]}"
    return text


def _places(text: str) -> Iterator[tuple[int, int]]:
    taken = 0
    for begin, end in sorted(_matches(text), key=lambda place: (place[0], -place[1])):
        if begin >= taken:
            yield begin, end
            taken = end


def _matches(text: str) -> Iterator[tuple[int, int]]:
    for form in _KNOWN_FORMS.values():
        yield from (found.span() for found in form.finditer(text))
    logins = (*_LOGINS, _WEB_USER) if "@" in text else ()
    for pattern in (*logins, *_COMMANDS, _IDENTIFIED_BY):
        yield from (f.span(1) for f in pattern.finditer(text) if not _NO_VALUE.match(f[1]))
    for pattern in (*_ASSIGNMENTS, _IN_JSON) if _PART_OF_NAME.search(text) else ():
        values = ((f.span(2), f[2].strip("\"'")) for f in pattern.finditer(text))
        yield from (span for span, value in values if _is_value(value))
    yield from (span for _, span in _query_secrets(text))
    yield from (f.span() for f in _BARE_KEY.finditer(text) if _is_random(f[0]))


def _query_secrets(text: str) -> Iterator[tuple[str, tuple[int, int]]]:
    """Yields name and span of each value in a database's address that may be secret."""
    for query in _DATABASE_QUERY.finditer(text) if "://" in text else ():
        for found in _QUERY_VALUE.finditer(text, *query.span(1)):
            key, value = unquote_plus(found[1]), unquote_plus(found[2])
            harmless = _HARMLESS.fullmatch(re.sub(r"[\W_]", "", key)) or _FILE.match(value)
            if not harmless and not _NO_VALUE.match(value):
                yield key, found.span(2)


def _is_random(text: str) -> bool:
    counts = Counter(text).values()
    bits = -sum(n / len(text) * math.log2(n / len(text)) for n in counts)
    kinds = (str.isupper, str.islower, str.isdigit)
    return bits > _RANDOM_BITS and all(any(map(kind, text)) for kind in kinds)


def hide_secret(name: str, value: str) -> str:
    """Returns `value`, or `***` if it looks like a secret in clear text."""
    return "***" if secret_kind(name, value) else value


def _is_value(text: str) -> bool:
    return len(text) >= 3 and not _NO_VALUE.match(text)
