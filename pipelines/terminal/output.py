"""Text output: escapes control characters."""

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
