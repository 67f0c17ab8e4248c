"""The position in the input at which a training begins; checkpoints store it."""

import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from penstock.components.errors import UsageError, counted


@dataclass
class InputStart:
    """Position in the input at which a training begins or resumes, for `Input.train`.

    Attributes:
        step: Number of batches already read; the input continues after them.
        seed: Seed of the order, used if the options have none.
        order: All that determines the rows and their order, by name; `Input.train` fills it in.
    """

    step: int = 0
    seed: int = field(default_factory=lambda: secrets.randbits(62))
    order: dict[str, Any] | None = None

    def hold(self, order: Mapping[str, Any]) -> None:
        """Stores what determines the rows and their order, or compares it with what is stored.

        Raises:
            UsageError: The input has changed: a resumed training would read other rows, or some
                twice and others never. Names the changes.
        """
        if self.order is not None and self.order != order:
            changed = [
                _change(name, self.order.get(name), order.get(name))
                for name in sorted({*self.order, *order})
                if self.order.get(name) != order.get(name)
            ]
            raise UsageError(
                f"the input differs from what was read up to step {self.step}: "
                f"{'; '.join(changed)}; restore it, or remove the checkpoints"
            )
        self.order = dict(order)


def _change(name: str, before: Any, now: Any) -> str:
    if name != "shards":
        return f"{name} was {before}, is {now}"
    changed = [shard for shard, digest in now if [shard, digest] not in (before or ())]
    if not changed:
        return f"there were {counted(len(before), 'shard')}, there are {len(now)}"
    return f"{changed[0]} has other content ({len(changed)} of {len(now)} shards)"
