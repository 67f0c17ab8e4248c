"""The signature of a model that takes columns: its name, its columns' names, missing values."""

import keyword
from collections.abc import Iterable

from penstock.components.errors import UsageError

SERVE_COLUMNS = "serve_columns"
SERVE_IMAGES = "serve_images"
MISSING_INT = -(2**63)
"""A whole number that is missing: JSON and tensors of integers know no null."""


def column_name(feature: str) -> str:
    """The name of a raw feature in the signature, where names are letters, digits and `_`.

    Another letter is its code, as `u00fc`: of words in other scripts all are different.
    """
    name = "".join(
        f"u{ord(one):04x}" if not one.isascii() else one if one.isalnum() else "_"
        for one in feature
    )
    return f"_{name}" if name[:1].isdigit() or keyword.iskeyword(name) else name


def features_by_column_name(features: Iterable[str]) -> dict[str, str]:
    """Raw features by their names in the signature.

    Raises:
        UsageError: Two features have the same.
    """
    found: dict[str, str] = {}
    for feature in features:
        other = found.setdefault(column_name(feature), feature)
        if other != feature:
            raise UsageError(
                f"columns {other!r} and {feature!r} cannot be told apart when served, both are "
                f"{column_name(feature)!r}; rename one"
            )
    return found
