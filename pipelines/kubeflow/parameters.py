"""Values of a run's parameters, as KFP writes and users give them."""

import json
from typing import Any

from penstock.components.errors import UsageError

# Python's types of KFP's parameter types, and words for them.
KINDS: dict[str, tuple[type, str]] = {
    "STRING": (str, "a text"),
    "BOOLEAN": (bool, "true or false"),
    "NUMBER_INTEGER": (int, "a whole number"),
    "NUMBER_DOUBLE": (float, "a number"),
    "STRUCT": (dict, "a JSON object"),
    "LIST": (list, "a JSON list"),
}


def parse_value(name: str, text: str, kind: type) -> Any:
    """Parses the text of a parameter; KFP writes every number as a double, 1000000 as 1e+06."""
    if kind is str:
        return text
    try:
        value = json.loads(text.lower() if kind is bool else text)
        if isinstance(value, bool) == (kind is bool):
            if kind is int and value == int(value):
                return int(value)
            if kind is float:
                return float(value)
            if isinstance(value, kind):
                return value
    except (OverflowError, TypeError, ValueError):
        pass
    [expected] = [words for one, words in KINDS.values() if one is kind]
    raise UsageError(f"parameter {name!r}: expected {expected}, got {text!r}")
