from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import pytest

from penstock.components.plain import from_plain


@dataclass(frozen=True)
class Inner:
    count: int
    share: float | None = None


@dataclass(frozen=True)
class Outer:
    inner: Inner | None
    parts: Sequence[Inner]
    by_name: Mapping[str, int]
    size: tuple[int, int] | None
    rest: Any = None


WHOLE = Outer(Inner(1), (Inner(2, 0.5), Inner(3, 1)), {"a": 1}, (4, 5), {"any": [1]})


def test_what_asdict_gives_comes_back():
    assert from_plain(Outer, asdict(WHOLE)) == WHOLE


def test_lists_of_json_are_tuples():
    made = from_plain(Outer, {"inner": None, "parts": [], "by_name": {}, "size": [4, 5]})
    assert made == Outer(None, (), {}, (4, 5))


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"inner": {"count": True}}, "'count' is True, expected a whole number, 0 or more"),
        ({"inner": {"count": -1}}, "'count' is -1, expected a whole number, 0 or more"),
        ({"parts": [{"count": 1, "share": "1"}]}, "'share' is '1', expected a number or null"),
        ({"by_name": {"a": 1.5}}, "'by_name' of 'a' is 1.5, expected a whole number"),
        ({"by_name": 7}, "'by_name' is 7, expected an object"),
        ({"parts": {}}, "'parts' is {}, expected a list"),
        ({"parts": ""}, "'parts' is '', expected a list"),
        ({"size": {}}, "'size' is {}, expected a list or null"),
        ({"stranger": 1}, "unexpected keyword argument 'stranger'"),
    ],
)
def test_what_does_not_fit_is_named(changes, text):
    with pytest.raises(TypeError, match=text):
        from_plain(Outer, {**asdict(WHOLE), **changes})
