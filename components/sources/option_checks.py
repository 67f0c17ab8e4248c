"""Checks that the options of all kinds of source share; each names the option and what it got."""

from collections.abc import Collection
from typing import Any

from penstock.components.errors import UsageError


def check_one_of(options: Any, name: str, choices: Collection[str]) -> None:
    """Refuse a value that is not one of the choices."""
    value = getattr(options, name)
    if value not in choices:
        raise UsageError(f"`{name}` must be one of {', '.join(choices)}, got {value!r}")


def check_whole(options: Any, *names: str, least: int = 1, most: int | None = None) -> None:
    """Refuse a value that is no whole number from `least` to `most`, both included."""
    for name in names:
        value = getattr(options, name)
        if not isinstance(value, int) or isinstance(value, bool) or value < least:
            raise UsageError(f"`{name}` must be a whole number of at least {least}, got {value!r}")
        if most is not None and value > most:
            raise UsageError(f"`{name}` must be at most {most}, got {value}")


def check_flag(options: Any, *names: str) -> None:
    """Refuse a value that is neither true nor false."""
    for name in names:
        value = getattr(options, name)
        if not isinstance(value, bool):
            raise UsageError(f"`{name}` must be true or false, got {value!r}")


def check_strings(options: Any, *names: str) -> None:
    """Make a list of strings, as JSON brings it, a tuple; refuse anything else but None."""
    for name in names:
        value = getattr(options, name)
        if value is None:
            continue
        if isinstance(value, str) or not all(isinstance(item, str) for item in value):
            raise UsageError(f"`{name}` must be a list of strings, got {value!r}")
        object.__setattr__(options, name, tuple(value))
