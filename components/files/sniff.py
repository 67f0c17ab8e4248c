"""Guesses a file's format from its first bytes, for error messages and to recognise tables."""

from penstock.components.magic import format_of

_TAR_AT = 257
# ASCII text in UTF-16 has a NUL as every second byte; in other scripts, digits, spaces and
# delimiters still have one.
_UTF16_NUL_SHARE = 0.4
# Text has hardly any control characters except white space, backspace and escape.
_CONTROLS = bytes(sorted({*range(32), 127} - {*b"\t\n\v\f\r\b\x1b"}))
_CONTROL_SHARE = 0.1


def kind_by_magic(head: bytes) -> str | None:
    """Returns the kind of table of a binary file, if its first bytes show it."""
    found = format_of(head)
    return found.kind if found else None


def not_text(head: bytes) -> str | None:
    """Returns a file's apparent format and a remedy, if it cannot be a UTF-8 table; else None."""
    if problem := _container(head):
        return problem
    start = head.lstrip()[:15].lower()
    if start.startswith((b"<!doctype html", b"<html", b"<table", b"<?xml")):
        return "looks like HTML or XML, perhaps an error page; download the data again"
    if start.startswith(b"[") and start[1:].lstrip().startswith(b"{"):
        return "looks like one JSON array; write an object a line, as `jq -c '.[]'` does"
    if start.startswith(b'{"'):
        return "looks like JSON; say --kind jsonl if it has an object a line"
    return _wide(head)


def not_plain_text(head: bytes) -> str | None:
    """Returns a file's apparent format and a remedy, if it cannot be plain text; else None."""
    if problem := _container(head) or _wide(head):
        return problem
    if len(head) - len(head.translate(None, _CONTROLS)) > _CONTROL_SHARE * len(head):
        return "looks like binary data; read it with `kind='binary'`"
    return None


def _container(head: bytes) -> str | None:
    if head[_TAR_AT : _TAR_AT + 5] == b"ustar":
        return "looks like a tar archive; unpack it"
    found = format_of(head)
    return f"looks like {found.name}; {found.advice}" if found else None


def _wide(head: bytes) -> str | None:
    even, odd = head[::2], head[1::2]
    for half, order in ((odd, "LE"), (even, "BE")):
        if len(half) >= 2 and half.count(0) > _UTF16_NUL_SHARE * len(half):
            return f"looks like UTF-16 without a mark; convert it: iconv -f UTF-16{order} -t UTF-8"
    return None
