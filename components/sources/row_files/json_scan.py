"""One pass over a file of JSON Lines: its lines, its digest, and where work may be cut."""

import codecs
import hashlib
import json
import os
from collections.abc import Callable
from dataclasses import dataclass

from penstock.components.errors import DataError
from penstock.components.sources.content import open_data
from penstock.components.sources.cutting import RowStart
from penstock.components.sources.sniff import not_text
from penstock.components.tfrecord.sharding import MIB

_BLOCK_BYTES = 4 * MIB
_SNIFFED_BYTES = 512


@dataclass(frozen=True)
class JsonLinesFile:
    """A file as the scan found it.

    Attributes:
        path: The file.
        size: Its size in bytes.
        data_start: First byte after a byte order mark.
        lines: Number of its lines.
        has_data: Whether any of them is not blank.
        sha256: Digest of the whole content.
        checkpoints: (byte, number) of lines from 1, ascending; the last is the file's end.
    """

    path: str
    size: int
    data_start: int
    lines: int
    has_data: bool
    sha256: bytes
    checkpoints: tuple[tuple[int, int], ...]

    @property
    def units(self) -> int:
        """Bytes of data."""
        return self.size - self.data_start

    def row_start(self, units: int) -> RowStart:
        """The first line that starts at byte `units` of the data or after it, or the end."""
        wanted = self.data_start + units
        byte, line = max(point for point in self.checkpoints if point[0] <= wanted)
        if byte < wanted:
            with open_data(self.path) as stream:
                stream.seek(byte)
                head = stream.read(wanted - byte)
                rest = b"" if head.endswith(b"\n") else stream.readline()
            byte, line = wanted + len(rest), line + head.count(b"\n") + bool(rest)
        return RowStart(byte, line, line)


def parse_line(line: bytes) -> dict[str, object]:
    """The object on one line.

    Raises:
        ValueError: It is no JSON, no object, or has a key twice; says where.
    """
    try:
        row = json.loads(line)
    except UnicodeDecodeError as error:
        raise ValueError(f"byte {error.start + 1} of the line is not UTF-8") from error
    except json.JSONDecodeError as error:
        raise ValueError(f"not JSON: {error.msg} at character {error.pos + 1}") from error
    except RecursionError as error:
        raise ValueError("nested too deeply") from error
    if not isinstance(row, dict):
        raise ValueError(
            f"expected an object ({{...}}), got {line[:40].decode(errors='replace')!r}"
        )
    # A key that stands twice would be lost. Each key has a colon, so few colons tell that none does
    # without the hook, which costs as much as the parsing.
    if line.count(b":") > len(row):
        json.loads(line, object_pairs_hook=_no_duplicates)
    return row


def _no_duplicates(pairs: list[tuple[str, object]]) -> dict[str, object]:
    row = dict(pairs)
    if len(row) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"key {twice!r} stands twice")
    return row


def scan_file(path: str, max_row_bytes: int, show: Callable[[bytes], None]) -> JsonLinesFile:
    """Scan one file.

    Args:
        path: The file.
        max_row_bytes: Longest line that is allowed.
        show: Is given whole lines from the beginning of each block, in order.

    Raises:
        DataError: It is something else than lines of text, or a line is too long.
    """
    digest = hashlib.sha256()
    with open_data(path) as stream:
        head = stream.read(_SNIFFED_BYTES)
        _check_head(path, head)
        start = len(codecs.BOM_UTF8) if head.startswith(codecs.BOM_UTF8) else 0
        stream.seek(0)
        digest.update(stream.read(start))
        byte, line, open_line, has_data = start, 1, 0, False
        checkpoints = [(byte, line)]
        while block := stream.read(_BLOCK_BYTES):
            digest.update(block)
            has_data = has_data or bool(block.strip())
            last = block.rfind(b"\n") + 1
            # What begins a line here may be the end of one that began in the block before.
            first = block.find(b"\n") + 1
            if max(open_line + (first or len(block)), len(block) - last) > max_row_bytes:
                raise DataError(
                    f"{path}: line {line} or one soon after it is longer than max_row_bytes "
                    f"{max_row_bytes}; expected one JSON object a line"
                )
            if last:
                show(block[first if open_line else 0 : last])
                line += block.count(b"\n")
                checkpoints.append((byte + last, line))
                open_line = len(block) - last
            else:
                open_line += len(block)
            byte += len(block)
        if open_line:
            line += 1
            show(block_tail(path, byte - open_line))
        checkpoints.append((byte, line))
        _check_same(path, os.fstat(stream.fileno()).st_size, byte)
    return JsonLinesFile(path, byte, start, line - 1, has_data, digest.digest(), tuple(checkpoints))


def block_tail(path: str, start: int) -> bytes:
    """All from a byte to the file's end: its last line, which no line end closes."""
    with open_data(path) as stream:
        stream.seek(start)
        return stream.read()


def _check_same(path: str, size: int, read: int) -> None:
    if size != read:
        raise DataError(f"{path}: grew while it was read; start again when it is complete")


def _check_head(path: str, head: bytes) -> None:
    start = head.removeprefix(codecs.BOM_UTF8).lstrip()
    if start.startswith(b"["):
        raise DataError(
            f"{path}: begins with '[', which is one JSON array; expected one object a line, as "
            "`jq -c '.[]'` writes it"
        )
    if not start.startswith(b"{") and (problem := not_text(head)):
        raise DataError(f"{path}: {problem}")
