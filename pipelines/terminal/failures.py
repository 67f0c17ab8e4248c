"""Failure of a node, with its reason as one line."""

import re

from penstock.components.errors import FULL_ADVICE, PenstockError

# In-process Beam workers pass on an exception as the text of its traceback.
_OWN_ERROR = re.compile(r"^penstock\.[\w.]+Error: ", re.MULTILINE)
# If a disk is full, TensorFlow's message has several lines, one of which contains the file's path.
_FULL_DISK = re.compile(r"(/\S+)[;:] No space left on device")
_BEAM_STEP = re.compile(r" \[while running '[^']*'\]$")

# Messages are cut to this length, because Beam and TensorFlow put whole stacks into some of them.
_MAX_MESSAGE_CHARS = 1000


class NodeFailedError(PenstockError):
    """A node failed or was stopped; the message names it and the reason.

    Later nodes did not run.
    """

    def __init__(self, text: str) -> None:
        # Messages of an ingest name the option `on_bad_row`. In a pipeline's config, it is called
        # `ingest.on_bad_row`.
        super().__init__(text.replace("`on_bad_row=", "`ingest.on_bad_row="))


def reason(error: BaseException) -> str:
    """Returns the text of a Penstock error in the chain, or type and last line of `error`."""
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
    """Returns a text as one line or, if it has a traceback, only the line of the exception."""
    lines = [line.strip() for line in reason.splitlines() if line.strip()]
    if any(line.startswith("Traceback (most recent call last)") for line in lines):
        lines = [_OWN_ERROR.sub("", lines[-1])]
    return " ".join(lines)[:_MAX_MESSAGE_CHARS]
