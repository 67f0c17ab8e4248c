"""Keys of the environment, taken out of every text that is stored or said."""

import os
import re

_NAMES = ("COMET_API_KEY", "MLFLOW_TRACKING_PASSWORD", "MLFLOW_TRACKING_TOKEN")
_LOGIN = re.compile(r"://[^/@\s]*@")
_HIDDEN = "***"


def redacted(text: str) -> str:
    """The text without the trackers' keys, and without the logins of addresses."""
    for name in _NAMES:
        if secret := os.environ.get(name):
            text = text.replace(secret, _HIDDEN)
    return _LOGIN.sub(f"://{_HIDDEN}@", text)
