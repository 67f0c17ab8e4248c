"""Options of text that is no table."""

import codecs
from dataclasses import dataclass

from penstock.components.errors import UsageError
from penstock.components.sources.option_checks import check_fields
from penstock.components.sources.whole_files.options import WholeFileOptions
from penstock.components.tfrecord.sharding import MIB

UNITS = ("line", "document")
# What is an escape in unicode_escape, raw_unicode_escape, idna, utf_7, hz and iso2022, then all of
# ASCII: an encoding that reads other characters from it may make line ends of them.
_ASCII_PROBES = (
    rb"a\n", rb"\u000a", b"xn--nxasmq6b", b"+AAo-", b"~{0l~}", b"\x1b$B0l\x1b(B", bytes(range(128)),
)  # fmt: skip


@dataclass(frozen=True)
class Text(WholeFileOptions):
    """Text, a row a line or a row a file.

    Attributes:
        unit: What a row holds: a `line`, or a `document`, which is a whole file.
        encoding: Of the files, as Python calls it; one in which ASCII is ASCII. A line or document
            that is not in it is rejected. Rows hold UTF-8.
        skip_blank: Whether to skip (and count) lines of white space.
        max_row_bytes: A longer line or document is rejected; bounds the memory of a row.
        allow_empty: Whether to skip a file without text instead of stopping; a
            document is then counted as blank.
        folder_label: Documents: add the feature `label`, the folder right below the input that a
            file is in.
        shuffle_seed: Documents: decides their order in the shards.
    """

    kind: str = "text"
    unit: str = "line"
    encoding: str = "utf-8"
    skip_blank: bool = True
    max_row_bytes: int = 64 * MIB

    def __post_init__(self) -> None:
        check_fields(self, unit=UNITS)
        object.__setattr__(self, "encoding", _normal_encoding(self.encoding))
        if self.unit == "line" and self.folder_label:
            raise UsageError("`folder_label` is about documents; set `unit='document'`")
        if self.unit == "document" and not self.skip_blank:
            raise UsageError("`skip_blank` is about lines; of documents `allow_empty` decides")


def _normal_encoding(name: str) -> str:
    """An encoding's usual name; UsageError if Python has none, or its line ends are not ASCII's."""
    try:
        usual = codecs.lookup(name).name
        is_fit = all(probe.decode(usual) == probe.decode("ascii") for probe in _ASCII_PROBES)
    except UnicodeError:
        is_fit = False
    except (LookupError, TypeError):
        raise UsageError(
            f"`encoding` must be one that Python knows, as utf-8 or cp1252, got {name!r}"
        ) from None
    if not is_fit:
        raise UsageError(
            f"`encoding` must be one in which ASCII is ASCII, as utf-8 or cp1252, got {name!r}; "
            "convert the files: iconv -t UTF-8"
        )
    return "utf-8" if usual == "utf-8-sig" else usual
