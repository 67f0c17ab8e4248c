"""Makes the components of gates, whose options are one dataclass, carried as JSON."""

from collections.abc import Callable
from types import FunctionType
from typing import Any, TypedDict, cast

from tfx.dsl.component.experimental.decorators import component

from penstock.components.plain import to_json


class Verdict(TypedDict):
    """Output of a gate: what it found, as JSON."""

    verdict: str


def options_component(kind: type) -> Callable[[Callable[..., Any]], Any]:
    """Makes a TFX component from a function with a parameter `options: Parameter[str]`.

    The component takes `options` as an instance of the dataclass `kind`, or None for its defaults;
    the function gets them as JSON, for `plain.from_json`. So an option is declared only in the
    dataclass, and it is part of the node's cache key.
    """

    def decorate(function: Callable[..., Any]) -> Any:
        node: Any = component(cast(FunctionType, function))
        make = node.__init__

        def __init__(self: Any, *, options: Any = None, **channels: Any) -> None:  # noqa: N807
            make(self, options=to_json(kind() if options is None else options), **channels)

        node.__init__ = __init__
        return node

    return decorate
