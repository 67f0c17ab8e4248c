"""The kind of a column of text, from a sample of it.

Each text of the sample is one of a few classes; the majority decides between numbers and
text, so that no single bad value changes a column's type: it is rejected where it stands.
A few numbers that are padded are no codes, and are read as the numbers that they are.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

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


@dataclass
class Tally:
    """How many texts of a column's sample are of each class.

    Attributes:
        integers: Integers within int64, without leading zeros or plus sign.
        long_integers: The same, but beyond int64.
        floats: Other numbers within float32, without leading zeros or plus sign.
        long_floats: The same, but beyond float32, so that no FLOAT column takes them.
        padded: Numbers with leading zeros or a plus sign: codes and telephone numbers.
        non_finite: NaN and infinities.
        texts: Everything else.
        nulls: What stands for no value.
    """

    integers: int = 0
    long_integers: int = 0
    floats: int = 0
    long_floats: int = 0
    padded: int = 0
    non_finite: int = 0
    texts: int = 0
    nulls: int = 0

    def add(self, label: str, counts: pa.Array) -> None:
        """Add up `counts` (int64) of one class."""
        setattr(self, label, getattr(self, label) + (pc.sum(counts).as_py() or 0))

    def add_integers(self, texts: pa.Array, counts: pa.Array) -> None:
        """Add integers of 19 digits or more, by whether each is within int64."""
        for text, count in zip(texts.to_pylist(), counts.to_pylist(), strict=True):
            # int() refuses thousands of digits; a sign and 19 digits decide.
            short = len(text.strip()) <= 20 and INT64_MIN <= int(text) <= INT64_MAX
            if short:
                self.integers += count
            else:
                self.long_integers += count

    def add_floats(self, texts: pa.Array, counts: pa.Array) -> None:
        """Add decimals and numbers with an exponent, by whether each is within float32."""
        numbers = pc.utf8_trim(texts.cast(pa.string()), SPACES).cast(pa.float64())
        large = pc.greater_equal(pc.abs(numbers), FLOAT32_LIMIT)
        self.add("long_floats", counts.filter(large))
        self.add("floats", counts.filter(pc.invert(large)))

    def merge(self, other: "Tally") -> None:
        """Add up what was counted elsewhere."""
        for label, count in vars(other).items():
            setattr(self, label, getattr(self, label) + count)

    def kind(self) -> FeatureKind:
        """The kind that keeps most and loses nothing.

        BYTES where no value was seen, where more than 1 % of the numbers are padded, where
        not more than half of the values are numbers, or where most integers are beyond
        int64. Else FLOAT where there are decimals (or only NaN and infinities), else INT.
        """
        finite = self.integers + self.long_integers + self.floats + self.long_floats
        numbers = finite + self.padded + self.non_finite
        if self.padded > _MAX_PADDED_SHARE * (finite + self.padded) or numbers <= self.texts:
            return FeatureKind.BYTES
        if self.floats or not finite:
            return FeatureKind.FLOAT
        if self.long_integers + self.long_floats > self.integers:
            return FeatureKind.BYTES
        return FeatureKind.INT


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

    def merge(self, tallies: Mapping[str, Tally]) -> None:
        """Add up the `tallies` of another part of the sample."""
        for name, tally in tallies.items():
            self._tallies.setdefault(name, Tally()).merge(tally)

    def kind(self, name: str) -> FeatureKind:
        """The kind of a column; BYTES where nothing of it was seen."""
        self._count(name)
        return self._tallies[name].kind()

    def _count(self, name: str) -> None:
        tally = self._tallies.setdefault(name, Tally())
        found = pc.value_counts(pa.chunked_array(self._waiting.pop(name, []), pa.binary()))
        texts, counts = found.field("values"), found.field("counts")
        for label, pattern in (("nulls", self._nulls), *_CLASSES):
            if not len(texts):
                return
            hit = pc.match_substring_regex(texts, f"^[{SPACES}]*(?:{pattern})[{SPACES}]*$")
            if label == "long_integers":
                tally.add_integers(texts.filter(hit), counts.filter(hit))
            elif label == "floats":
                tally.add_floats(texts.filter(hit), counts.filter(hit))
            else:
                tally.add(label, counts.filter(hit))
            texts, counts = texts.filter(pc.invert(hit)), counts.filter(pc.invert(hit))
        tally.add("texts", counts)
