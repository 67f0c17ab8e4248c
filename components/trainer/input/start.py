"""The position in the input at which a training begins, as its checkpoints keep it."""

import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from penstock.components.errors import UsageError


@dataclass
class InputStart:
    """The place of a training in its input, for `Input.train`.

    Attributes:
        step: Batches that were given before; the input goes on after them.
        seed: Seed of the order if the options have none.
        order: All that the order of the rows depends on, by name; the input function fills it in.
    """

    step: int = 0
    seed: int = field(default_factory=lambda: secrets.randbits(62))
    order: dict[str, Any] | None = None

    def hold(self, order: Mapping[str, Any]) -> None:
        """Keep what the order depends on, or hold it against what was kept.

        Raises:
            UsageError: It is not what it was: rows would come twice, others never.
        """
        if self.order is not None and self.order != order:
            changed = [
                f"{name} was {_short(self.order.get(name))}, is {_short(order.get(name))}"
                for name in sorted({*self.order, *order})
                if self.order.get(name) != order.get(name)
            ]
            raise UsageError(
                f"the input differs from what was read up to step {self.step}: "
                f"{'; '.join(changed)}; restore it, or remove the checkpoints"
            )
        self.order = dict(order)


def _short(value: Any) -> str:
    text = str(value)
    return text if len(text) <= 40 else f"{text[:37]}..."
