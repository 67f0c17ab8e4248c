"""Bytes in some encoding to UTF-8; nothing is replaced, and what does not fit is named by byte."""

import codecs

from penstock.components.files.content import EMPTY_ADVICE
from penstock.components.files.sniff import not_plain_text
from penstock.components.sources.whole_files.rows import UnfitFileError

_SNIFFED_BYTES = 512


def to_utf8(data: bytes, encoding: str) -> bytes:
    """The text in UTF-8; UnicodeDecodeError if it is not in that encoding."""
    if encoding != "utf-8":
        return data.decode(encoding).encode()
    if not data.isascii():
        data.decode()
    return data


def fault_in(data: bytes, encoding: str, *, what: str, offset: int = 0) -> str | None:
    """What keeps bytes from being text, and at which byte; None if nothing does.

    The message calls them `what`, a line or a file. Where `offset` in the file is 0, it says
    nothing of it.
    """
    try:
        to_utf8(data, encoding)
    except UnicodeDecodeError as error:
        return f"{_place(error.start, what, offset)} is not {encoding}; set encoding to the file's"
    except UnicodeEncodeError:
        return f"the {what} holds a lone surrogate, which UTF-8 cannot encode"
    at = data.find(b"\0")
    return None if at < 0 else f"{_place(at, what, offset)} is NUL, which text cannot have"


def check_head(head: bytes, encoding: str) -> str | None:
    """What the first bytes of a file that should be text say against it; None if nothing."""
    if head.startswith(codecs.BOM_UTF8) and encoding != "utf-8":
        return f"begins with the mark of UTF-8, and encoding is {encoding!r}; leave that away"
    return not_plain_text(head)


def document_text(data: bytes, *, encoding: str, allow_empty: bool) -> bytes | None:
    """The document in UTF-8, without a byte order mark; None where it is blank and may be.

    Raises:
        UnfitFileError: It is blank and may not be, or no text in that encoding.
    """
    if problem := check_head(data[:_SNIFFED_BYTES], encoding):
        raise UnfitFileError(problem)
    try:
        text = to_utf8(data.removeprefix(codecs.BOM_UTF8), encoding)
        is_text = b"\0" not in text
    except UnicodeError:
        is_text = False
    if not is_text:
        raise UnfitFileError(fault_in(data, encoding, what="file"))
    if text.strip():
        return text
    if allow_empty:
        return None
    raise UnfitFileError(
        f"{'holds only white space' if text else 'is empty (0 bytes)'}; {EMPTY_ADVICE}"
    )


def _place(at: int, what: str, offset: int) -> str:
    of_file = f" (byte {offset + at + 1} of the file)" if offset else ""
    return f"byte {at + 1} of the {what}{of_file}"
