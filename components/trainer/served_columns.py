"""Names of the serving signatures and of their columns, and the value of a missing integer."""

import keyword
import re
from collections.abc import Iterable

from penstock.components.errors import UsageError

SERVE_COLUMNS = "serve_columns"
SERVE_IMAGES = "serve_images"
MISSING_INT = -(2**63)
"""Stands for a missing integer, because an integer tensor has neither null nor NaN."""


def class_names_node(output: str) -> str:
    """Returns the name of the graph node with an output's class names; `output` may be empty.

    Clients read the class names from the model's graph, because a response would repeat all of them
    in every row.
    """
    return f"class_names.{re.sub(r'[^A-Za-z0-9_]', '.', output)}"


def column_name(feature: str) -> str:
    """Returns a raw feature's name in the signature: a letter, then letters, digits and `_`.

    Other ASCII characters become `_`. Each non-ASCII character becomes its code, such as `u00fc`,
    so that names in any script stay distinct. Names that TensorFlow does not accept as arguments
    get the prefix `column_`.
    """
    name = "".join(
        f"u{ord(one):04x}" if not one.isascii() else one if one.isalnum() else "_"
        for one in feature
    )
    is_argument = name[:1].isalpha() and not keyword.iskeyword(name) and name != "self"
    return name if is_argument else f"column_{name}"


def features_by_column_name(features: Iterable[str]) -> dict[str, str]:
    names = {feature: column_name(feature) for feature in features}
    first: dict[str, str] = {}
    for feature, name in names.items():
        other = first.setdefault(name.lower(), feature)
        if other != feature:
            raise UsageError(
                f"columns {other!r} and {feature!r} cannot be told apart when served, both are "
                f"{name.lower()!r}; rename one"
            )
    return {name: feature for feature, name in names.items()}
