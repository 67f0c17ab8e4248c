"""A user's module that leaves files open, and their contents after plain Python has ended."""

import os
import subprocess
import sys
from pathlib import Path

_MODULE = """
import bz2, gzip, io, lzma, zipfile

class OwnText(io.TextIOWrapper):
    pass

FILES = (
    gzip.GzipFile("log.gz", "wb", mtime=0),
    bz2.open("log.bz2", "wb"),
    lzma.open("log.xz", "wb"),
    io.BufferedWriter(io.FileIO("log.bin", "wb")),
)
TEXT = OwnText(open("log.txt", "wb"))
ZIP = zipfile.ZipFile("log.zip", "w")

# A class is in a cycle, so that only a collection of garbage completes its file.
class Holder:
    file = io.BufferedWriter(io.FileIO("log.class.bin", "wb"))

def log():
    Holder.file.write(b"done")
    for file in FILES:
        file.write(b"done")
    TEXT.write("done")
    ZIP.writestr(zipfile.ZipInfo("log"), "done")
"""


def write_module(folder: Path) -> None:
    """Writes `leaves_open.py`, which opens files in the working directory when it is imported."""
    (folder / "leaves_open.py").write_text(_MODULE)


def left_by_plain_python(folder: Path) -> dict[str, bytes]:
    """Files that `leaves_open.log()` leaves in a new folder, in a process without Penstock.

    CPython 3.13.5 itself leaves some of them incomplete, so tests compare with these files and not
    with fixed contents.
    """
    plain = folder / "plain"
    plain.mkdir()
    code = "__import__('leaves_open').log()"
    environment = {**os.environ, "PYTHONPATH": str(folder)}
    subprocess.run([sys.executable, "-c", code], cwd=plain, env=environment, check=True)
    return left_in(plain)


def left_in(folder: Path) -> dict[str, bytes]:
    """Content of each log file by its name."""
    found = {file.name: file.read_bytes() for file in folder.glob("log.*")}
    assert len(found) == 7
    return found
