"""Checks that the options of all kinds of source share; each names the option and what it got."""

from collections.abc import Collection
from dataclasses import fields
from typing import Any

from penstock.components.errors import UsageError

NON_FINITE = ("reject", "null", "keep")
# Options of several kinds: the texts that each may be, and the most that a number may be.
_CHOICES = {
    "extra_columns": ("reject", "drop"),
    "nested": ("reject", "json"),
    "non_finite": NON_FINITE,
}
_MOST = {"max_row_bytes": 2**30}  # Arrow's offsets within a block of text are int32.


def check_fields(options: Any, **choices: Collection[str]) -> None:
    """Refuse a field that is not of its default's type: whole number, flag or list of strings.

    A number may be 0 where its default is. `kind` is as it is by default, and other texts are one
    of `choices`; a field without a default, and any other text, is not looked at.
    """
    known: dict[str, Collection[str]] = {**_CHOICES, **choices}
    for field in fields(options):
        name, default = field.name, field.default
        if name == "kind" and default is not None:
            known[name] = (str(default),)
        if name in known:
            check_one_of(options, name, known[name])
        elif isinstance(default, bool):
            if not isinstance(value := getattr(options, name), bool):
                raise UsageError(f"`{name}` must be true or false, got {value!r}")
        elif isinstance(default, int):
            check_whole(options, name, least=min(default, 1), most=_MOST.get(name))
        elif isinstance(default, tuple):
            check_strings(options, name)


def check_one_of(options: Any, name: str, choices: Collection[str]) -> None:
    """Refuse a value that is not one of the choices."""
    value = getattr(options, name)
    if value not in choices:
        raise UsageError(f"`{name}` must be one of {', '.join(choices)}, got {value!r}")


def check_whole(options: Any, name: str, *, least: int = 1, most: int | None = None) -> None:
    """Refuse a value that is no whole number from `least` to `most`, both included."""
    value = getattr(options, name)
    if not isinstance(value, int) or isinstance(value, bool) or value < least:
        raise UsageError(f"`{name}` must be a whole number of at least {least}, got {value!r}")
    if most is not None and value > most:
        raise UsageError(f"`{name}` must be at most {most}, got {value}")


def check_strings(options: Any, name: str) -> None:
    """Make a list of strings, as JSON brings it, a tuple; refuse anything else but None."""
    value = getattr(options, name)
    if value is None:
        return
    if isinstance(value, str) or not all(isinstance(item, str) for item in value):
        raise UsageError(f"`{name}` must be a list of strings, got {value!r}")
    object.__setattr__(options, name, tuple(value))
