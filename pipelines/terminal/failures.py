"""A node's failure, and why, in words for a person."""

import re

from penstock.components.errors import FULL_ADVICE, PenstockError

# In-process Beam workers hand an exception over as the text of its traceback.
_OWN_ERROR = re.compile(r"^penstock\.[\w.]+Error: ", re.MULTILINE)
# TensorFlow names the file in the midst of several lines.
_FULL_DISK = re.compile(r"(/\S+)[;:] No space left on device")
_BEAM_STEP = re.compile(r" \[while running '[^']*'\]$")

# A message is for one line in a log, not for a whole Beam or TensorFlow stack.
_MAX_MESSAGE_CHARS = 1000


class NodeFailedError(PenstockError):
    """A node failed, or was told to stop: names it and says why; the nodes after it did not run."""

    def __init__(self, text: str) -> None:
        # A run has options, where ingest has flags.
        super().__init__(text.replace("`on_bad_row=", "`ingest.on_bad_row="))


def reason(error: BaseException) -> str:
    """Returns the text of our own error in a chain, else the kind and the last line."""
    seen: BaseException | None = error
    while seen is not None:
        if isinstance(seen, PenstockError):
            return str(seen)
        seen = seen.__cause__
    text = _BEAM_STEP.sub("", str(error).strip())
    *_, own = _OWN_ERROR.split(text)
    if own != text:
        return own
    if full := _FULL_DISK.search(text):
        return f"{full[1]}: No space left on device; {FULL_ADVICE}"
    if "No space left on device" in text:
        return f"No space left on device; {FULL_ADVICE}"
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return f"{type(error).__name__}: {lines[-1]}" if lines else type(error).__name__


def brief(reason: str) -> str:
    """Returns one line; for a text with a traceback, the line of the exception."""
    lines = [line.strip() for line in reason.splitlines() if line.strip()]
    if any(line.startswith("Traceback (most recent call last)") for line in lines):
        lines = [_OWN_ERROR.sub("", lines[-1])]
    return " ".join(lines)[:_MAX_MESSAGE_CHARS]
