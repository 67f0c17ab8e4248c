"""Validation functions that options classes call in `__post_init__`; they raise UsageError.

Messages put an option's name in backticks, which the command line replaces by its flag.
"""

import math
from collections.abc import Collection
from numbers import Integral, Real
from typing import Any

from penstock.components.errors import UsageError


def check_choices(options: Any, **choices: Collection[object]) -> None:
    for name, known in choices.items():
        if (value := getattr(options, name)) not in known:
            listed = ", ".join(str(one) or "''" for one in known)
            raise UsageError(f"`{name}` must be one of {listed}, got {value!r}")


def check_numbers(options: Any, **limits: float | tuple[float, float]) -> None:
    """Checks that each number is at least its limit, or within its two limits.

    If the limit is an integer, the value must be an integer, too. None is accepted if it is the
    option's default.
    """
    for name, limit in limits.items():
        value = getattr(options, name)
        low, high = limit if isinstance(limit, tuple) else (limit, math.inf)
        kind, word = (Integral, "a whole number") if isinstance(low, int) else (Real, "a number")
        if value is None and getattr(type(options), name, 0) is None:
            continue
        is_kind = isinstance(value, kind) and not isinstance(value, bool)
        if not is_kind:
            raise UsageError(f"`{name}` must be {word}, got {value!r}")
        if not low <= value <= high:
            rule = f"at least {low:.15g}" if high == math.inf else f"within {low:.15g}..{high:.15g}"
            raise UsageError(f"`{name}` must be {rule}, got {value}")
