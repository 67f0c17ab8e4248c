"""Guesses a file's format from its first bytes, for error messages."""

PARQUET_MAGIC = b"PAR1"

_MAGIC = (
    (b"\x1f\x8b", "gzip", "decompress it first (gunzip)"),
    (b"PK\x03\x04", "a zip archive or an Excel workbook", "unpack it, or export it as CSV"),
    (b"BZh91AY&SY", "bzip2", "decompress it first (bunzip2)"),
    (b"\xfd7zXZ\x00", "xz", "decompress it first (unxz)"),
    (b"\x28\xb5\x2f\xfd", "zstd", "decompress it first (unzstd)"),
    (b"\x5d\0\0", "lzma", "decompress it first (unlzma)"),
    (b"\x04\x22\x4d\x18", "lz4", "decompress it first (unlz4)"),
    (b"\x1f\x9d", "a file of compress (.Z)", "decompress it first (uncompress)"),
    (PARQUET_MAGIC, "Parquet", "name it .parquet, or say `kind='parquet'`"),
    (b"PARE", "encrypted Parquet", "decrypt it and write it again"),
    (b"ARROW1\0\0", "Arrow IPC or Feather", "name it .arrow, or say `kind='arrow'`"),
    (b"\xff\xff\xff\xff", "an Arrow stream", "name it .arrow, or say `kind='arrow'`"),
    (b"FEA1", "Feather version 1", "write it again by pyarrow.feather, which writes version 2"),
    (b"ORC", "ORC", "name it .orc, or say `kind='orc'`"),
    (
        b"SQLite format 3\0",
        "an SQLite database",
        "read it as sqlite:///PATH with --kind sql --table NAME",
    ),
    (b"\x89PNG\r\n\x1a\n", "a PNG image", "read it with --kind images"),
    (b"\xff\xd8\xff", "a JPEG image", "read it with --kind images"),
    (b"Obj\x01", "Avro", "name it .avro, or say `kind='avro'`"),
    (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", "an old Excel workbook", "export it as CSV"),
    (b"\x89HDF\r\n\x1a\n", "HDF5", "export it as Parquet, by pandas.read_hdf or h5py"),
    (b"\x93NUMPY", "a NumPy array", "export it as Parquet, by numpy.load and pyarrow"),
    *(
        (
            bytes([0x80, version]),
            "a Python pickle",
            "reading it may run code: write Parquet instead",
        )
        for version in (2, 3, 4, 5)
    ),
    (b"version https://git-lfs", "a Git LFS pointer", "fetch the file: git lfs pull"),
    (b"<stata_dta>", "Stata", "export it as Parquet, by pandas.read_stata"),
    (b"r\x02\x01\0", "Stata", "export it as Parquet, by pandas.read_stata"),
    (b"r\x01\x01\0", "Stata", "export it as Parquet, by pandas.read_stata"),
    (b"%PDF-", "a PDF", "export the table as CSV"),
    (b"\xff\xfe\x00\x00", "UTF-32", "convert it: iconv -f UTF-32 -t UTF-8"),
    (b"\xff\xfe", "UTF-16", "convert it: iconv -f UTF-16 -t UTF-8"),
    (b"\xfe\xff", "UTF-16", "convert it: iconv -f UTF-16 -t UTF-8"),
)

_TAR_AT = 257
# ASCII text in UTF-16 has a NUL in every second byte; texts in other scripts still have many.
_UTF16_NUL_SHARE = 0.4
# Kinds of tables that are recognised by their first bytes.
_KINDS = {
    PARQUET_MAGIC: "parquet",
    b"ARROW1\0\0": "arrow",
    b"\xff\xff\xff\xff": "arrow",
    b"ORC": "orc",
    b"Obj\x01": "avro",
}

# Text has hardly any control characters other than white space, backspace and escape.
_CONTROLS = bytes(sorted({*range(32), 127} - {*b"\t\n\v\f\r\b\x1b"}))
_CONTROL_SHARE = 0.1
_PRINTABLE = bytes(sorted(set(range(256)) - set(range(9))))


def kind_by_magic(head: bytes) -> str | None:
    """Returns the kind of table of a binary file, if its first bytes show it."""
    found = (magic for magic in _KINDS if head.startswith(magic) and not _is_word(magic, head))
    return _KINDS.get(next(found, b""))


def not_text(head: bytes) -> str | None:
    """Returns what a file looks like and what to do, if it cannot be a UTF-8 table; else None."""
    if problem := _container(head):
        return problem
    start = head.lstrip()[:15].lower()
    if start.startswith((b"<!doctype html", b"<html", b"<table", b"<?xml")):
        return "looks like HTML or XML, perhaps an error page; download the data again"
    if start.startswith(b"[") and start[1:].lstrip().startswith(b"{"):
        return "looks like one JSON array; write an object a line, as `jq -c '.[]'` does"
    if start.startswith(b'{"'):
        return "looks like JSON; say --kind jsonl if it has an object a line"
    return _wide(head)


def not_plain_text(head: bytes) -> str | None:
    """Returns what a file looks like and what to do, if it cannot be plain text; else None."""
    if problem := _container(head) or _wide(head):
        return problem
    if len(head) - len(head.translate(None, _CONTROLS)) > _CONTROL_SHARE * len(head):
        return "looks like binary data; read it with `kind='binary'`"
    return None


def _container(head: bytes) -> str | None:
    if head[_TAR_AT : _TAR_AT + 5] == b"ustar":
        return "looks like a tar archive; unpack it"
    for magic, name, advice in _MAGIC:
        if head.startswith(magic) and not _is_word(magic, head):
            return f"looks like {name}; {advice}"
    return None


def _is_word(magic: bytes, head: bytes) -> bool:
    """Returns whether a text only happens to begin with letters of a magic: `ORCHARD,PARENT`."""
    return magic in (b"PARE", b"FEA1", b"ORC") and not head.translate(None, _PRINTABLE)


def _wide(head: bytes) -> str | None:
    even, odd = head[::2], head[1::2]
    for half, order in ((odd, "LE"), (even, "BE")):
        if len(half) >= 2 and half.count(0) > _UTF16_NUL_SHARE * len(half):
            return f"looks like UTF-16 without a mark; convert it: iconv -f UTF-16{order} -t UTF-8"
    return None
