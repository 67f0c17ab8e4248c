"""Infers the kind of a column of text from a sample.

Each text of the sample belongs to one of a few classes. The majority decides between numbers and
text, so that a single bad value does not change a column's type: its row is rejected later.
"""

import re
from collections import Counter
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

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
# Parts of all texts of these classes whose values are beyond int64 and float32.
_MAY_BE_LONG = {"integers": "[0-9]{19}", "floats": "[eE]|[0-9]{38}"}
# If a larger share of the numbers is padded, the column holds codes; otherwise quantities, a few of
# them badly written. In a numeric column "007" is read as 7, as Arrow reads it: to find such values
# would add half the cost of parsing.
_MAX_PADDED_SHARE = 0.01


class TypeSample:
    """Counts of the classes of texts by column; `null_tokens` mean no value, spaces ignored."""

    def __init__(self, null_tokens: Sequence[str]) -> None:
        forms = {"nulls": "|".join(map(re.escape, null_tokens)), **_CLASSES}
        self._forms = {n: f"^[{SPACES}]*(?:{form})[{SPACES}]*$" for n, form in forms.items()}
        self._tallies: dict[str, Counter[str]] = {}

    def add(self, name: str, values: pa.Array) -> None:
        """Counts unconverted values of one column, binary [rows]."""
        tally = self._tallies.setdefault(name, Counter())
        counted = values.value_counts()
        texts, counts = counted.field("values"), counted.field("counts").to_numpy()
        for kind, form in self._forms.items():
            is_kind = _matches(texts, form)
            is_long = np.zeros_like(is_kind)
            if kind in _MAY_BE_LONG:
                for at in np.flatnonzero(is_kind & _matches(texts, _MAY_BE_LONG[kind])).tolist():
                    is_long[at] = _is_long(kind, texts[at].as_py())
            tally["long"] += int(counts[is_long].sum())
            tally[kind] += int(counts[is_kind & ~is_long].sum())
            texts, counts = texts.filter(pa.array(~is_kind)), counts[~is_kind]
        tally["texts"] += int(counts.sum())

    def kind(self, name: str) -> FeatureKind:
        """Returns the kind of a column that keeps most rows and loses nothing.

        `integers` are within int64, `floats` other numbers within float32, `long` numbers beyond
        these types, `padded` numbers with leading zeros or a plus sign (codes and telephone
        numbers), `non_finite` NaN and infinities, `nulls` texts without value, `texts` the rest.

        BYTES if there is no value, if more than 1 % of the numbers are padded, if at most half of
        the values are numbers, or if most integers are beyond int64. Otherwise FLOAT if there are
        decimals (or only NaN and infinities), else INT.
        """
        tally = self._tallies.get(name, Counter())
        finite = tally["integers"] + tally["floats"] + tally["long"]
        numbers = finite + tally["padded"] + tally["non_finite"]
        padded = tally["padded"] > _MAX_PADDED_SHARE * (finite + tally["padded"])
        if padded or numbers <= tally["texts"]:
            return FeatureKind.BYTES
        if tally["floats"] or not finite:
            return FeatureKind.FLOAT
        return FeatureKind.BYTES if tally["long"] > tally["integers"] else FeatureKind.INT


def _matches(texts: pa.Array, form: str) -> npt.NDArray[np.bool_]:
    return pc.match_substring_regex(texts, form).to_numpy(zero_copy_only=False)


def _is_long(kind: str, text: bytes) -> bool:
    if kind == "floats":
        return abs(float(text)) >= FLOAT32_LIMIT
    # int() refuses thousands of digits.
    return len(text.strip()) > 20 or not INT64_MIN <= int(text) <= INT64_MAX
