"""Infers the kind of a column of text from a sample.

Each text of the sample belongs to one of a few classes. The majority decides between numbers and
text, so that a single bad value does not change a column's type: its row is rejected later.
"""

import re
from collections import Counter
from collections.abc import Sequence

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

# Tried in this order; a text belongs to the first class that it matches. Integers of up to 18
# digits are within int64; longer ones are compared one by one.
_CLASSES = (
    ("integers", r"-?(?:0|[1-9][0-9]{0,17})"),
    ("long_integers", PLAIN_INTEGER),
    ("floats", PLAIN_FLOAT),
    ("padded", ANY_FLOAT),
    ("non_finite", NON_FINITE),
)
# If a larger share of the numbers is padded, the column holds codes; otherwise quantities, a few of
# them badly written. In a numeric column "007" is read as 7, as Arrow reads it: to find such values
# would add half the cost of parsing.
_MAX_PADDED_SHARE = 0.01
# Values of a column counted in one call, as a call costs a few hundred microseconds.
_COUNT_ROWS = 4096


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


def _fit_int64(texts: pa.Array) -> pa.Array:
    """Returns which integers are within int64; int() would refuse thousands of digits."""
    within = (len(t.strip()) <= 20 and INT64_MIN <= int(t) <= INT64_MAX for t in texts.to_pylist())
    return pa.array(within, pa.bool_())


def _beyond_float32(texts: pa.Array) -> pa.Array:
    numbers = pc.utf8_trim(texts.cast(pa.string()), SPACES).cast(pa.float64())
    return pc.greater_equal(pc.abs(numbers), FLOAT32_LIMIT)


def _sum(counts: pa.Array) -> int:
    return pc.sum(counts).as_py() or 0


class TypeSample:
    """Tallies of all columns of a sample; `null_tokens` stand for no value, spaces ignored."""

    def __init__(self, null_tokens: Sequence[str]) -> None:
        self._nulls = "|".join(re.escape(token) for token in null_tokens)
        self._tallies: dict[str, Counter[str]] = {}
        self._waiting: dict[str, list[pa.Array]] = {}

    def add(self, name: str, values: pa.Array) -> None:
        """Counts unconverted values of one column, binary [rows]."""
        waiting = self._waiting.setdefault(name, [])
        waiting.append(values)
        if sum(map(len, waiting)) >= _COUNT_ROWS:
            self._count(name)

    def kind(self, name: str) -> FeatureKind:
        """Returns the kind of a column; BYTES if it has no sampled values."""
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
