"""Options of `penstock init`."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from penstock.components.errors import UsageError, nearest

ROLES = ("number", "boolean", "date", "category", "text", "drop")


@dataclass(frozen=True)
class StarterOptions:
    """Facts about the data that the user states; `penstock init` finds all other facts in the data.

    Attributes:
        targets: Column to predict; repeatable. Images in one folder per class need none.
        labels_file: Label file of the images; by default the only one in their folder or, if there
            is none and the images are not in subfolders, in its parent.
        drop: Column that the model does not get; repeatable.
        roles: Role by column, one of `ROLES`.
        group: Column whose equal values stay in one split, such as a patient's id.
        time: Column of times that divides the rows: the latest third is evaluated.
        source: Options by name for reading the data, such as `{"delimiter": ";"}`.
    """

    targets: tuple[str, ...] = ()
    labels_file: str | None = None
    drop: tuple[str, ...] = ()
    roles: Mapping[str, str] = field(default_factory=dict)
    group: str | None = None
    time: str | None = None
    source: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.group and self.time:
            raise UsageError("group and time: rows are divided by one of them")
        for name, role in self.roles.items():
            if role not in ROLES:
                raise UsageError(f"role of {name!r}: no role {role!r}; {nearest(role, ROLES)}")
            if name in self.targets or (name in self.drop and role != "drop"):
                raise UsageError(f"column {name!r} has two roles; give it one")

    @property
    def columns(self) -> list[str]:
        return [*self.targets, *self.drop, *self.roles, *filter(None, (self.group, self.time))]
