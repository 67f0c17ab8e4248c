"""First bytes of file formats, for error messages and to recognise the kinds of tables."""

from typing import NamedTuple

PARQUET_MAGIC = b"PAR1"
AVRO_MAGIC = b"Obj\x01"
ARROW_MAGIC = b"ARROW1"
ARROW_STREAM_MAGIC = b"\xff\xff\xff\xff"
# Bytes that a text may contain: all except the control characters below tab, 0 to 8.
_PRINTABLE = bytes(sorted(set(range(256)) - set(range(9))))


class _Format(NamedTuple):
    """A format and its first bytes; `kind` is the kind of table that `ingest` reads, if any."""

    magic: bytes
    name: str
    advice: str
    kind: str | None = None


def _table(magic: bytes, name: str, kind: str) -> _Format:
    return _Format(magic, name, f"name it .{kind}, or say `kind='{kind}'`", kind)


_PICKLE = "reading it may run code: write Parquet instead"
_FORMATS = (
    _Format(b"\x1f\x8b", "gzip", "decompress it first (gunzip)"),
    _Format(b"PK\x03\x04", "a zip archive or an Excel workbook", "unpack it, or export it as CSV"),
    _Format(b"BZh91AY&SY", "bzip2", "decompress it first (bunzip2)"),
    _Format(b"\xfd7zXZ\x00", "xz", "decompress it first (unxz)"),
    _Format(b"\x28\xb5\x2f\xfd", "zstd", "decompress it first (unzstd)"),
    _table(PARQUET_MAGIC, "Parquet", "parquet"),
    _table(ARROW_MAGIC + b"\0\0", "Arrow IPC or Feather", "arrow"),
    _table(ARROW_STREAM_MAGIC, "an Arrow stream", "arrow"),
    _Format(b"FEA1", "Feather version 1", "write it again by pyarrow.feather, as version 2"),
    _table(b"ORC", "ORC", "orc"),
    _Format(b"SQLite format 3\0", "an SQLite database", "read it as sqlite:///PATH, --kind sql"),
    _Format(b"\x89PNG\r\n\x1a\n", "a PNG image", "read it with --kind images"),
    _Format(b"\xff\xd8\xff", "a JPEG image", "read it with --kind images"),
    _table(AVRO_MAGIC, "Avro", "avro"),
    _Format(b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", "an old Excel workbook", "export it as CSV"),
    _Format(b"\x89HDF\r\n\x1a\n", "HDF5", "export it as Parquet, by pandas.read_hdf or h5py"),
    _Format(b"\x93NUMPY", "a NumPy array", "export it as Parquet, by numpy.load and pyarrow"),
    *(_Format(bytes([0x80, version]), "a Python pickle", _PICKLE) for version in (2, 3, 4, 5)),
    _Format(b"version https://git-lfs", "a Git LFS pointer", "fetch the file: git lfs pull"),
    _Format(b"<stata_dta>", "Stata", "export it as Parquet, by pandas.read_stata"),
    _Format(b"%PDF-", "a PDF", "export the table as CSV"),
    _Format(b"\xff\xfe\x00\x00", "UTF-32", "convert it: iconv -f UTF-32 -t UTF-8"),
    _Format(b"\xff\xfe", "UTF-16", "convert it: iconv -f UTF-16 -t UTF-8"),
    _Format(b"\xfe\xff", "UTF-16", "convert it: iconv -f UTF-16 -t UTF-8"),
)


def format_of(head: bytes) -> _Format | None:
    """Returns the format of a binary file, if its first bytes show one."""
    found = (one for one in _FORMATS if head.startswith(one.magic))
    return next((one for one in found if not _is_word(one.magic, head)), None)


def _is_word(magic: bytes, head: bytes) -> bool:
    """Returns whether `head` is text that happens to begin with `magic`, as in `ORCHARD,PARENT`."""
    return magic in (b"FEA1", b"ORC") and not head.translate(None, _PRINTABLE)
