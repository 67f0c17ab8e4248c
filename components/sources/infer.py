"""Infers the kind of a column of text from a sample.

Each text of the sample belongs to one of a few classes. The majority decides between numbers and
text, so that a single bad value does not change a column's type: its row is rejected later.
"""

import re
from collections import Counter
from collections.abc import Sequence

import pyarrow as pa

from penstock.components.sources.tokens import (
    ANY_FLOAT,
    FLOAT32_LIMIT,
    INT64_MAX,
    INT64_MIN,
    NON_FINITE,
    PLAIN_FLOAT,
    PLAIN_INTEGER,
    SPACES,
)
from penstock.components.tfrecord.feature_kind import FeatureKind

# Tried in this order; a text belongs to the first class that it matches.
_CLASSES = {
    "integers": PLAIN_INTEGER,
    "floats": PLAIN_FLOAT,
    "padded": ANY_FLOAT,
    "non_finite": NON_FINITE,
}
# If a larger share of the numbers is padded, the column holds codes; otherwise quantities, a few of
# them badly written. In a numeric column "007" is read as 7, as Arrow reads it: to find such values
# would add half the cost of parsing.
_MAX_PADDED_SHARE = 0.01


class TypeSample:
    """Counts of the classes of texts by column; `null_tokens` mean no value, spaces ignored."""

    def __init__(self, null_tokens: Sequence[str]) -> None:
        forms = {"nulls": "|".join(map(re.escape, null_tokens)), **_CLASSES}
        either = "|".join(f"(?P<{name}>{form})" for name, form in forms.items())
        self._form = re.compile(f"[{SPACES}]*(?:{either})[{SPACES}]*".encode())
        self._tallies: dict[str, Counter[str]] = {}

    def add(self, name: str, values: pa.Array) -> None:
        """Counts unconverted values of one column, binary [rows]."""
        tally = self._tallies.setdefault(name, Counter())
        for text, count in Counter(values.to_pylist()).items():
            tally[self._class_of(text)] += count

    def kind(self, name: str) -> FeatureKind:
        """Returns the kind of a column; BYTES if it has no sampled values."""
        return _kind(self._tallies.get(name, Counter()))

    def _class_of(self, text: bytes) -> str:
        found = self._form.fullmatch(text)
        name = str(found.lastgroup) if found else "texts"
        # int() refuses thousands of digits.
        if name == "integers" and not (
            len(text.strip()) <= 20 and INT64_MIN <= int(text) <= INT64_MAX
        ):
            return "long_integers"
        if name == "floats" and abs(float(text)) >= FLOAT32_LIMIT:
            return "long_floats"
        return name


def _kind(tally: Counter[str]) -> FeatureKind:
    """Returns the kind that keeps most rows and loses nothing, given counts of texts by class.

    `integers` are within int64, `floats` other numbers within float32, `long_integers` and
    `long_floats` beyond these types, `padded` numbers with leading zeros or a plus sign (codes and
    telephone numbers), `non_finite` NaN and infinities, `nulls` texts without value, `texts` the
    rest.

    BYTES if there is no value, if more than 1 % of the numbers are padded, if at most half of the
    values are numbers, or if most integers are beyond int64. Otherwise FLOAT if there are decimals
    (or only NaN and infinities), else INT.
    """
    too_long = tally["long_integers"] + tally["long_floats"]
    finite = tally["integers"] + tally["floats"] + too_long
    numbers = finite + tally["padded"] + tally["non_finite"]
    padded = tally["padded"] > _MAX_PADDED_SHARE * (finite + tally["padded"])
    if padded or numbers <= tally["texts"]:
        return FeatureKind.BYTES
    if tally["floats"] or not finite:
        return FeatureKind.FLOAT
    return FeatureKind.BYTES if too_long > tally["integers"] else FeatureKind.INT
