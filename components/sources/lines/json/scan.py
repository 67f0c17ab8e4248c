"""The rules for a JSON Lines file and for a line of it."""

import codecs
import json
import math
import re
from collections import Counter
from collections.abc import Iterable

from penstock.components.files.sniff import not_text
from penstock.components.sources.tokens import beyond_float32

_LARGE_EXPONENT = re.compile(rb"[eE]\+?\d{3}")
# As many digits before a point are beyond float64, too. Each is one search: both in one cost 2 us.
_MOST_DIGITS = 308
_MANY_DIGITS = re.compile(rb"\d{309}")
_SHOWN_CHARACTERS = 80


def parse_line(line: bytes) -> dict[str, object]:
    """The object on one line; ValueError says where it is no JSON or has a key twice."""
    try:
        row = json.loads(line, parse_float=_finite if _may_be_large(line) else None)
    except UnicodeDecodeError as error:
        raise ValueError(f"byte {error.start + 1} of the line is not UTF-8") from error
    except json.JSONDecodeError as error:
        raise ValueError(f"not JSON: {error.msg} at character {error.pos + 1}") from error
    except RecursionError as error:
        raise ValueError("nested too deeply") from error
    if not isinstance(row, dict):
        raise ValueError(
            f"expected an object ({{...}}), got {line[:40].decode(errors='replace')!r}"
        )
    # A key that stands twice would be lost. Each key has a colon, so few colons tell that none does
    # without the hook, which costs as much as the parsing.
    if line.count(b":") > len(row):
        json.loads(line, object_pairs_hook=no_duplicates)
    if b"\\u" in line or b"\xed" in line:  # else no text has a surrogate
        check_keys(row)
    return row


def _may_be_large(line: bytes) -> bool:
    """Whether Python may make infinity of a number; the hook that tells has its cost."""
    if _LARGE_EXPONENT.search(line):
        return True
    return len(line) > _MOST_DIGITS and _MANY_DIGITS.search(line) is not None


def check_keys(row: Iterable[str]) -> None:
    """Refuse, by ValueError, keys that are not Unicode text, which no column can be called."""
    for key in row:
        try:
            key.encode()
        except UnicodeEncodeError as error:
            raise ValueError(f"key {key!r} is not Unicode text (a lone surrogate)") from error


def _finite(text: str) -> float:
    number = float(text)
    if math.isinf(number):
        raise ValueError(beyond_float32(text[:_SHOWN_CHARACTERS]))
    return number


def no_duplicates(pairs: list[tuple[str, object]]) -> dict[str, object]:
    """A JSON object, as a hook of `json.loads`; ValueError for a key that stands twice."""
    row = dict(pairs)
    if len(row) < len(pairs):
        twice = next(name for name, times in Counter(n for n, _ in pairs).items() if times > 1)
        raise ValueError(f"key {twice!r} stands twice")
    return row


def check_head(head: bytes) -> str | None:
    """What is wrong with the first bytes of a file of JSON Lines; None if nothing is."""
    start = head.removeprefix(codecs.BOM_UTF8).lstrip()
    if start.startswith(b"["):
        return (
            "begins with '[', which is one JSON array; expected one object a line, as "
            "`jq -c '.[]'` writes it"
        )
    return None if start.startswith(b"{") else not_text(head)
