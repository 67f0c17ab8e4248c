"""The protocol of a tracker, of one run each; and what none of them is told."""

import os
import re
from collections.abc import Mapping
from typing import Literal, Protocol

State = Literal["finished", "failed", "interrupted"]

_NAMES = ("COMET_API_KEY", "MLFLOW_TRACKING_PASSWORD", "MLFLOW_TRACKING_TOKEN")
_LOGIN = re.compile(r"://[^/@\s]*@")
_HIDDEN = "***"


class Tracker(Protocol):
    """One run in a tracker. What it raises means that it failed, whatever the kind."""

    @property
    def run(self) -> str:
        """The tracker's id of the run, by which a resumed training goes on with it."""
        ...

    @property
    def url(self) -> str | None:
        """Where a person sees it; None where nowhere."""
        ...

    @property
    def continued(self) -> bool:
        """Whether it was there before, and has params and earlier epochs already."""
        ...

    def params(self, values: Mapping[str, str]) -> None:
        """Log options by name."""

    def metrics(self, values: Mapping[str, float], step: int) -> None:
        """Log figures by name, as of a training step."""

    def file(self, name: str, text: str) -> None:
        """Log a text file."""

    def end(self, state: State) -> None:
        """Close the run; blocks until all is sent."""


def redacted(text: str) -> str:
    """The text without the trackers' keys, and without the logins of addresses."""
    for name in _NAMES:
        if secret := os.environ.get(name):
            text = text.replace(secret, _HIDDEN)
    return _LOGIN.sub(f"://{_HIDDEN}@", text)
