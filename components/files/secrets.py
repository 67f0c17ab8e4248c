"""Detection of secrets in clear text, from a name and its text.

Options, addresses, commands and notes end in files and metadata that others read; all that looks
for secrets in them looks by this one list. What only names a secret (`${DB_PASSWORD}`) is none.
"""

import re

# What stands for a value without being one: empty, ${NAME}, $NAME, <name>, {name}, ***, xxx.
_NO_VALUE = re.compile(r"^(\$.*|<.*>|\{.*\}|%\(.*|\*+|x+|none|null|true|false|)$", re.IGNORECASE)
_SECRET_WORD = (
    r"(?:[\w.-]*(?:password|passwd|passphrase|secret"
    r"|(?:api|access|account|private|secret|subscription)[-_]?key(?:[-_]?id)?|credentials?)"
    r"|(?:[\w.-]*[_-])?pwd|jwt"
    r"|(?:[\w.-]*(?:auth|access|api|refresh|id|bearer|session|security|sas)[-_]?)?token)"
)
# Too common a word of texts to be one before a colon.
_PASS = r"(?:[\w.-]*[_-])?pass"
# Of the parameters of an address alone: elsewhere these words name much that is no secret.
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
    "a login of HTTP": re.compile(r"\bauthorization\W+basic\s+[0-9A-Za-z+/=]{4,}", re.IGNORECASE),
}
_LOGINS = (
    re.compile(r"\b[a-z][a-z0-9+.-]*://[^/\s:@'\"]*:([^/\s@'\"]+)@", re.IGNORECASE),
    # Drivers of databases take the last @ for the end of the login, whatever is before it.
    re.compile(
        r"\b(?:postgres\w*|mysql|mariadb|mssql|oracle|snowflake|mongodb|redis)(?:\+\w+)?://"
        r"[^/\s:@'\"]*:([^\s?'\"]+)@",
        re.IGNORECASE,
    ),
)
# A user of the web is a token as often as not.
_WEB_USER = re.compile(r"\bhttps?://([^/\s:@'\"?#]+)@", re.IGNORECASE)


def secret_kind(name: str, value: str) -> str | None:
    """What kind of secret a text looks like, "a GitHub token"; None where it looks like none.

    Args:
        name: What the text is called, `source.password`; the empty string where it has no name.
        value: The text.
    """
    for kind, form in _KNOWN_FORMS.items():
        if form.search(value):
            return kind
    if any(not _NO_VALUE.match(found) for login in _LOGINS for found in login.findall(value)):
        return "a password in an address"
    if any(not _NO_VALUE.match(found) for found in _WEB_USER.findall(value)):
        return "a user name in a web address"
    if _IDENTIFIED_BY.search(value):
        return "a password"
    last_name = name.rsplit(".", 1)[-1]
    if _SECRET_NAME.match(last_name) and _is_value(value):
        return f"the value of {last_name.lstrip('-')!r}"
    for assignment in _ASSIGNMENTS:
        for key, assigned in assignment.findall(value):
            if _is_value(assigned.strip("\"'")):
                return f"the value of {key.lstrip('-.')!r}"
    return None


def is_secret_parameter(name: str) -> bool:
    """Whether a parameter of an address, as `sig`, is called as one that holds a secret."""
    return bool(_SECRET_PARAMETER.match(name))


def hide_secret(name: str, value: str) -> str:
    """`value`, or `***` where it looks like a secret in clear text."""
    return "***" if secret_kind(name, value) else value


def _is_value(text: str) -> bool:
    return len(text) >= 3 and not _NO_VALUE.match(text)
