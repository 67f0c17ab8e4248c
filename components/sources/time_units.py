"""Dates and times in a column of integers: all of one class, or they would count different units.

A date counts days, a datetime, a time and a timedelta microseconds, each from a point of its own.
"""

import datetime
from collections import Counter
from collections.abc import Sequence

from penstock.components.sources.batches import Faults

# By exact class: a datetime is a date, too.
_TIMES = (datetime.date, datetime.datetime, datetime.time, datetime.timedelta)
_NUMBERS = (bool, int, float)


def other_units(values: Sequence[object]) -> Faults:
    """Which values count in another unit than most do, by place; none where no value is a time."""
    classes = [_classes(value) for value in values]
    counted = Counter(one for found in classes for one in found)
    if len(counted) < 2 or counted.keys().isdisjoint(_TIMES):
        return {}
    most = counted.most_common(1)[0][0]
    fit = {most} if most in _TIMES else set(_NUMBERS)
    return {
        at: f"is {_shown(found)}, most are {_shown({most})}; expected all of one type, or they "
        "would be counted in different units"
        for at, found in enumerate(classes)
        if not found <= fit
    }


def _classes(value: object) -> set[type]:
    """The classes of a value, or of a list's values, among those that make integers."""
    found = set(map(type, value)) if isinstance(value, list) else {type(value)}
    return found.intersection((*_TIMES, *_NUMBERS))


def _shown(classes: set[type]) -> str:
    return " and ".join(sorted(one.__name__ for one in classes))
