"""The kind of a column of text, from a sample of it.

Each text of the sample is one of a few classes; the majority decides between numbers and
text, so that no single bad value changes a column's type: it is rejected where it stands.
"""

import re
from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.compute as pc

from penstock.components.sources.base import FeatureKind
from penstock.components.sources.tokens import (
    ANY_FLOAT,
    INT64_MAX,
    INT64_MIN,
    NON_FINITE,
    PLAIN_FLOAT,
    PLAIN_INTEGER,
    SPACES,
)

_CLASSES = re.compile(
    f"(?P<integers>{PLAIN_INTEGER})|(?P<floats>{PLAIN_FLOAT})"
    f"|(?P<padded>{ANY_FLOAT})|(?P<non_finite>{NON_FINITE})"
)
# No integer with more characters is within int64 (19 digits and a sign).
_INT64_CHARACTERS = 20


@dataclass
class Tally:
    """How many texts of a column's sample are of each class; null ones are in none.

    Attributes:
        integers: Integers within int64, without leading zeros or plus sign.
        long_integers: The same, but beyond int64.
        floats: Other numbers without leading zeros or plus sign.
        padded: Numbers with leading zeros or a plus sign: codes and telephone numbers.
        non_finite: NaN and infinities.
        texts: Everything else.
    """

    integers: int = 0
    long_integers: int = 0
    floats: int = 0
    padded: int = 0
    non_finite: int = 0
    texts: int = 0

    def kind(self) -> FeatureKind:
        """The kind that keeps most and loses nothing.

        BYTES where no value was seen, where any number is padded, where not more than half
        of the values are numbers, or where most integers are beyond int64. Else FLOAT
        where there are decimals (or only NaN and infinities), else INT.
        """
        finite = self.integers + self.long_integers + self.floats
        numbers = finite + self.non_finite
        if self.padded or numbers <= self.texts:
            return FeatureKind.BYTES
        if self.floats or not finite:
            return FeatureKind.FLOAT
        return FeatureKind.BYTES if self.long_integers > self.integers else FeatureKind.INT


@dataclass
class TypeSample:
    """Tallies of all columns, added to as parts of the sample are seen.

    Attributes:
        null_tokens: Texts that are no value, without the spaces around them.
        tallies: By column name.
    """

    null_tokens: frozenset[str]
    tallies: dict[str, Tally] = field(default_factory=dict)

    def add(self, name: str, values: pa.Array) -> None:
        """Count the values of one column of a part of the sample.

        Args:
            name: The column's name.
            values: binary [rows], as they stand in the file.
        """
        tally = self.tallies.setdefault(name, Tally())
        for entry in pc.value_counts(values).to_pylist():
            text = entry["values"].decode("utf-8", "replace").strip(SPACES)
            if text not in self.null_tokens:
                label = _class(text)
                setattr(tally, label, getattr(tally, label) + entry["counts"])

    def kind(self, name: str) -> FeatureKind:
        """The kind of a column; BYTES where nothing of it was seen."""
        return self.tallies.get(name, Tally()).kind()


def _class(text: str) -> str:
    """The attribute of `Tally` that counts `text`."""
    match = _CLASSES.fullmatch(text)
    label = match.lastgroup if match else None
    if label == "integers" and (
        len(text) > _INT64_CHARACTERS or not INT64_MIN <= int(text) <= INT64_MAX
    ):
        return "long_integers"
    return label or "texts"
