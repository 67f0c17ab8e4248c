"""Forms of numbers in text, for inferring types from a sample and for reading values."""

import re
from collections import Counter
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from penstock.components.tfrecord.feature_kind import FeatureKind

# Half a step above the largest float32: from here on, numbers are rounded to infinity.
FLOAT32_LIMIT = 2.0**128 - 2.0**103
INT64_MIN, INT64_MAX = -(2**63), 2**63 - 1

# Characters ignored around a number, as in Arrow's CSV reader.
SPACES = " \t"

# Plain numbers have no plus sign and no leading zeros, which a conversion to a number would lose.
# When types are inferred, a column of numbers that are not plain, such as "02134" or "+49301234",
# becomes BYTES.
PLAIN_INTEGER = r"-?(?:0|[1-9][0-9]*)"
PLAIN_FLOAT = r"-?(?:(?:0|[1-9][0-9]*)(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?"
NON_FINITE = r"[+-]?(?:[nN][aA][nN]|[iI][nN][fF](?:[iI][nN][iI][tT][yY])?)"
# Other forms that a column of numbers accepts.
WHOLE = r"([+-]?[0-9]+)(?:\.0*)?"
ANY_FLOAT = r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?"

_PLAIN = re.compile(f"{PLAIN_FLOAT}|{NON_FINITE}")
_WHOLE = re.compile(WHOLE)
_FLOAT = re.compile(ANY_FLOAT)
_NON_FINITE = re.compile(NON_FINITE)

# Classes are tried in this order; a text belongs to the first class that it matches.
_CLASSES = {
    "integers": PLAIN_INTEGER,
    "floats": PLAIN_FLOAT,
    "padded": ANY_FLOAT,
    "non_finite": NON_FINITE,
}
# Patterns that match every text of a class whose value is beyond int64 (integers) or float32
# (floats), and a few other texts, which `_is_long` then excludes.
_MAY_BE_LONG = {"integers": "[0-9]{19}", "floats": "[eE]|[0-9]{38}"}
# If more than this share of the numbers has leading zeros or a plus sign, the column is taken to
# contain codes, otherwise quantities, some of them badly written. A numeric column reads "007" as
# 7, as Arrow does, because finding such values would increase the cost of parsing by half.
_MAX_PADDED_SHARE = 0.01

# Number of characters of a wrong value that a message shows.
_SHOWN_CHARACTERS = 40


def show(text: str) -> str:
    cut = text if len(text) <= _SHOWN_CHARACTERS else text[:_SHOWN_CHARACTERS] + "..."
    return repr(cut)


def is_plain_number(text: str) -> bool:
    return _PLAIN.fullmatch(text.strip(SPACES)) is not None


def beyond_int64(shown: str) -> str:
    return f"{shown} is beyond int64; as BYTES it would be kept"


def beyond_float32(shown: str) -> str:
    return f"{shown} is beyond float32 (3.4e38); as BYTES it would be kept"


def to_int64(text: str, non_finite: str) -> int | None:
    """Parses a whole number (also `8.0`) within int64.

    Returns None for NaN or infinity if `non_finite` is `null`.
    """
    text = text.strip(SPACES)
    match = _WHOLE.fullmatch(text)
    if not match:
        if non_finite == "null" and _NON_FINITE.fullmatch(text):
            return None
        hint = "; a FLOAT column would hold it" if _FLOAT.fullmatch(text) else ""
        raise ValueError(f"{show(text)} is not an integer{hint}")
    # int() refuses thousands of digits, and a number with 20 digits is certainly beyond int64.
    digits = match[1].lstrip("+-").lstrip("0")
    number = int(match[1]) if len(digits) < 20 else INT64_MAX + 1
    if not INT64_MIN <= number <= INT64_MAX:
        raise ValueError(beyond_int64(show(text)))
    return number


def to_float32(text: str, non_finite: str) -> float | None:
    """Parses a number within float32.

    Returns None for NaN or infinity if `non_finite` is `null`.
    """
    text = text.strip(SPACES)
    if _FLOAT.fullmatch(text):
        number = float(text)
        if abs(number) >= FLOAT32_LIMIT:
            raise ValueError(beyond_float32(show(text)))
        return number
    if not _NON_FINITE.fullmatch(text):
        raise ValueError(f"{show(text)} is not a number")
    return finite_or(float(text), non_finite)


def finite_or(number: float, non_finite: str) -> float | None:
    """Returns NaN or infinity for `keep`, None for `null`; raises ValueError for `reject`."""
    if non_finite == "keep":
        return number
    if non_finite == "null":
        return None
    raise ValueError(f"{number} is not finite; `non_finite` 'null' or 'keep' would let it in")


class TypeSample:
    """Counts texts by column and class; `null_tokens`, with any spaces around, mean no value."""

    def __init__(self, null_tokens: Sequence[str]) -> None:
        forms = {"nulls": "|".join(map(re.escape, null_tokens)), **_CLASSES}
        self._forms = {n: f"^[{SPACES}]*(?:{form})[{SPACES}]*$" for n, form in forms.items()}
        self._tallies: dict[str, Counter[str]] = {}

    def add(self, name: str, values: pa.Array) -> None:
        """Adds the texts of one column, binary [rows], to its counts."""
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
        """Returns the kind of a column, decided by the counts of its values.

        `integers` counts whole numbers within int64, `floats` other numbers within float32, and
        `long` numbers beyond these types. `padded` counts numbers with leading zeros or a plus sign
        (codes and telephone numbers), and `non_finite` counts NaN and infinities. `nulls` counts
        texts that mean no value, and `texts` counts the rest.

        The kind is BYTES if there is no value, if more than 1 % of the numbers are padded, or if at
        most half of the values are numbers. Otherwise it is FLOAT if any number is in `floats`, or
        if all are NaN or infinities. Otherwise it is BYTES if `long` is larger than `integers`,
        else INT.
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
