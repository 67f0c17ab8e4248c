"""Documents: a file's bytes to the text of its row."""

import codecs

from penstock.components.files.content import EMPTY_ADVICE
from penstock.components.sources.lines.text.decoding import check_head, fault_in, to_utf8
from penstock.components.sources.whole_files.rows import UnfitFileError

_SNIFFED_BYTES = 512


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
