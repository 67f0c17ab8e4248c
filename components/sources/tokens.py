"""The forms of numbers in text, used to infer types and to read values."""

import re

# Half a step above the largest float32: from here on, numbers are rounded to infinity.
FLOAT32_LIMIT = 2.0**128 - 2.0**103
INT64_MIN, INT64_MAX = -(2**63), 2**63 - 1

# Ignored around a number, as by Arrow's CSV reader.
SPACES = " \t"

# Plain numbers have no plus sign and no leading zeros, so that no character is lost in conversion.
# Only these make a column numeric when types are inferred ("02134" and "+49301234" are text).
PLAIN_INTEGER = r"-?(?:0|[1-9][0-9]*)"
PLAIN_FLOAT = r"-?(?:(?:0|[1-9][0-9]*)(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?"
NON_FINITE = r"[+-]?(?:[nN][aA][nN]|[iI][nN][fF](?:[iI][nN][iI][tT][yY])?)"
# Forms that a column of numbers also accepts.
WHOLE = r"([+-]?[0-9]+)(?:\.0*)?"
ANY_FLOAT = r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?"

_PLAIN = re.compile(f"{PLAIN_FLOAT}|{NON_FINITE}")
_WHOLE = re.compile(WHOLE)
_FLOAT = re.compile(ANY_FLOAT)
_NON_FINITE = re.compile(NON_FINITE)

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


NON_FINITE_ADVICE = "; `non_finite` 'null' or 'keep' would let it in"


def to_int64(text: str, non_finite: str) -> int | None:
    """Parses a whole number (also `8.0`) within int64; None for NaN or infinity under `null`."""
    text = text.strip(SPACES)
    match = _WHOLE.fullmatch(text)
    if not match:
        if non_finite == "null" and _NON_FINITE.fullmatch(text):
            return None
        hint = "; a FLOAT column would hold it" if _FLOAT.fullmatch(text) else ""
        raise ValueError(f"{show(text)} is not an integer{hint}")
    # int() refuses thousands of digits, and 20 digits already tell.
    digits = match[1].lstrip("+-").lstrip("0")
    number = int(match[1]) if len(digits) < 20 else INT64_MAX + 1
    if not INT64_MIN <= number <= INT64_MAX:
        raise ValueError(beyond_int64(show(text)))
    return number


def to_float32(text: str, non_finite: str) -> float | None:
    """Parses a number within float32; None for NaN or infinity if `non_finite` is `null`."""
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
    raise ValueError(f"{number} is not finite{NON_FINITE_ADVICE}")
