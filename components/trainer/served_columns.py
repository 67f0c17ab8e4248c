"""The signature of a model that takes columns: its name, its columns' names, missing values."""

import re

SERVE_COLUMNS = "serve_columns"
SERVE_IMAGES = "serve_images"
MISSING_INT = -(2**63)
"""A whole number that is missing: JSON and tensors of integers know no null."""


def column_name(feature: str) -> str:
    """The name of a raw feature in the signature, where names are letters, digits and `_`."""
    name = re.sub(r"\W", "_", feature, flags=re.ASCII)
    return f"_{name}" if name[:1].isdigit() else name
