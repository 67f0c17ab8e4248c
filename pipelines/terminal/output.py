"""Text output: escapes control characters, and survives failures of the stream."""

import os
from contextlib import suppress
from typing import Any, TextIO

# C0 and C1 control characters, such as ESC, which begins terminal commands, and DEL; and marks that
# change the direction of text. Line feeds and tabs stay.
_CONTROL = {
    code: f"\\x{code:02x}" for code in (*range(0x20), *range(0x7F, 0xA0)) if chr(code) not in "\n\t"
}
_DIRECTION = {code: f"\\u{code:04x}" for code in (*range(0x202A, 0x202F), *range(0x2066, 0x206A))}
_ESCAPES = _CONTROL | _DIRECTION


def plain(text: str) -> str:
    """Replaces control characters and undecodable bytes by Python's escapes."""
    return text.translate(_ESCAPES).encode("utf-8", "backslashreplace").decode("utf-8")


class ForgivingStream:
    """A text stream that drops text it cannot write, as with a full device or a closed pipe."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self.error: OSError | None = None

    def write(self, text: str) -> int:
        try:
            return self._stream.write(text)
        except OSError as error:
            self._give_up(error)
            return len(text)

    def flush(self) -> None:
        try:
            self._stream.flush()
        except OSError as error:
            self._give_up(error)

    def _give_up(self, error: OSError) -> None:
        self.error = self.error or error
        # Buffered text would fail again at every flush, even when Python exits.
        with suppress(OSError, ValueError):
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, self._stream.fileno())
            os.close(nowhere)
            self._stream.flush()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)
