"""The kind of a column of text, from a sample of it.

Each text of the sample is one of a few classes; the majority decides between numbers and
text, so that no single bad value changes a column's type: it is rejected where it stands.
A few numbers that are padded are no codes, and are read as the numbers that they are.
"""

import re
from collections import Counter
from collections.abc import Sequence
from typing import Any, TypeAlias

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

# Tried in this order; a text is of the first class that it matches. 18 digits are surely
# within int64, and what else is an integer is looked at one by one.
_CLASSES = (
    ("integers", r"-?(?:0|[1-9][0-9]{0,17})"),
    ("long_integers", PLAIN_INTEGER),
    ("floats", PLAIN_FLOAT),
    ("padded", ANY_FLOAT),
    ("non_finite", NON_FINITE),
)
# More than this share of the numbers padded, and they are codes; up to it, quantities with a few
# values badly written. Arrow reads "007" as 7, and to find such values costs half as much again as
# all the parsing: what stands in a column that is numeric otherwise is read as the number it is.
_MAX_PADDED_SHARE = 0.01
# Values of a column that are counted together: a count costs a few hundred microseconds.
_COUNT_ROWS = 4096


Tally: TypeAlias = Counter[str]
"""How many texts of a column's sample are of each class.

`integers` are within int64, `floats` other numbers within float32, `padded` numbers with leading
zeros or a plus sign (codes and telephone numbers); `long_integers` and `long_floats` are beyond
these types, `non_finite` NaN and infinities, `nulls` what stands for no value, `texts` all else.
"""


def _kind(tally: Tally) -> FeatureKind:
    """The kind that keeps most and loses nothing.

    BYTES where no value was seen, where more than 1 % of the numbers are padded, where
    not more than half of the values are numbers, or where most integers are beyond
    int64. Else FLOAT where there are decimals (or only NaN and infinities), else INT.
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


def _fit_int64(texts: pa.Array) -> pa.Array:
    """Which integers are within int64; int() refuses thousands of digits, 20 decide."""
    within = (len(t.strip()) <= 20 and INT64_MIN <= int(t) <= INT64_MAX for t in texts.to_pylist())
    return pa.array(within, pa.bool_())


def _beyond_float32(texts: pa.Array) -> pa.Array:
    numbers = pc.utf8_trim(texts.cast(pa.string()), SPACES).cast(pa.float64())
    return pc.greater_equal(pc.abs(numbers), FLOAT32_LIMIT)


def _sum(counts: pa.Array) -> int:
    return pc.sum(counts).as_py() or 0


class TypeSample:
    """Tallies of all columns, added to as parts of the sample are seen.

    `null_tokens` are no value; spaces around them do not matter.
    """

    def __init__(self, null_tokens: Sequence[str]) -> None:
        self._nulls = "|".join(re.escape(token) for token in null_tokens)
        self._tallies: dict[str, Tally] = {}
        self._waiting: dict[str, list[pa.Array]] = {}

    def add(self, name: str, values: pa.Array) -> None:
        """Count the values of one column in a part of the sample: binary [rows], as they stand."""
        waiting = self._waiting.setdefault(name, [])
        waiting.append(values)
        if sum(map(len, waiting)) >= _COUNT_ROWS:
            self._count(name)

    def tallies(self) -> dict[str, Tally]:
        """By column, what was seen until now."""
        for name in list(self._waiting):
            self._count(name)
        return self._tallies

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "_tallies": self.tallies(), "_waiting": {}}

    def merge(self, other: "TypeSample") -> None:
        """Add up what was counted in another part of the sample."""
        for name, tally in other.tallies().items():
            self._tallies.setdefault(name, Counter()).update(tally)

    def kind(self, name: str) -> FeatureKind:
        """The kind of a column; BYTES where nothing of it was seen."""
        self._count(name)
        return _kind(self._tallies[name])

    def _count(self, name: str) -> None:
        tally = self._tallies.setdefault(name, Counter())
        found = pc.value_counts(pa.chunked_array(self._waiting.pop(name, []), pa.binary()))
        texts, counts = found.field("values"), found.field("counts")
        for label, pattern in (("nulls", self._nulls), *_CLASSES):
            if not len(texts):
                return
            hit = pc.match_substring_regex(texts, f"^[{SPACES}]*(?:{pattern})[{SPACES}]*$")
            hits, numbers = texts.filter(hit), counts.filter(hit)
            other = {"long_integers": "integers", "floats": "long_floats"}.get(label)
            if other:
                is_other = _fit_int64(hits) if other == "integers" else _beyond_float32(hits)
                tally[other] += _sum(numbers.filter(is_other))
                numbers = numbers.filter(pc.invert(is_other))
            tally[label] += _sum(numbers)
            texts, counts = texts.filter(pc.invert(hit)), counts.filter(pc.invert(hit))
        tally["texts"] += _sum(counts)
