"""Protocol of a tracker, one for each run, and redaction of secrets for all of them."""

import os
import re
from collections.abc import Mapping
from typing import Literal, Protocol

State = Literal["finished", "failed", "interrupted"]

_NAMES = ("COMET_API_KEY", "MLFLOW_TRACKING_PASSWORD", "MLFLOW_TRACKING_TOKEN")
_LOGIN = re.compile(r"://[^/@\s]*@")
_HIDDEN = "***"


class Tracker(Protocol):
    """A run in a tracker. Any exception that it raises means that the tracker failed."""

    @property
    def run(self) -> str:
        """The tracker's id of the run, with which a resumed training continues it."""
        ...

    @property
    def url(self) -> str | None:
        """URL of the run, or None if the tracker has no web page."""
        ...

    @property
    def continued(self) -> bool:
        """Whether the run existed before and has params and earlier epochs already."""
        ...

    def params(self, values: Mapping[str, str]) -> None: ...

    def metrics(self, values: Mapping[str, float], step: int) -> None: ...

    def file(self, name: str, text: str) -> None: ...

    def end(self, state: State) -> None:
        """Closes the run; blocks until everything is sent."""


def redacted(text: str) -> str:
    """Redacts the trackers' keys and the logins in addresses."""
    for name in _NAMES:
        if secret := os.environ.get(name):
            text = text.replace(secret, _HIDDEN)
    return _LOGIN.sub(f"://{_HIDDEN}@", text)
