"""What makes a file one of JSON Lines, and a line a row."""

import codecs
import json

from penstock.components.sources.sniff import not_text


def parse_line(line: bytes) -> dict[str, object]:
    """The object on one line.

    Raises:
        ValueError: It is no JSON, no object, or has a key twice; says where.
    """
    try:
        row = json.loads(line)
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
        json.loads(line, object_pairs_hook=_no_duplicates)
    return row


def _no_duplicates(pairs: list[tuple[str, object]]) -> dict[str, object]:
    row = dict(pairs)
    if len(row) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
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
