"""Google's store by its JSON API from a server of our own; HDFS by Arrow's own file system."""

import os
import sys

import pyarrow.fs
import pytest
from fsspec.implementations.arrow import ArrowFSWrapper

from penstock.components.errors import DataError
from penstock.components.files.listing import list_files
from penstock.components.sources.open import open_source

CSV = b"id,n\n" + b"".join(b"%d,%d\n" % (i, i * i) for i in range(1000))


@pytest.mark.slow
def test_objects_of_google(google, read_out):
    google.objects |= {"d/a.csv": CSV, "d/b.csv": CSV, "d/_SUCCESS": b""}
    google.faults += ["503", "reset", "short"]
    for pattern in ("gs://b/d", "gs://b/d/*.csv"):
        source = open_source(pattern)
        assert source.files == ("gs://b/d/a.csv", "gs://b/d/b.csv")
        assert len(read_out(source, parts=3).rows) == 2000
    assert google.faults == []
    files = list_files("gs://b/d/a.csv", None).files
    assert files[0].sure_version == str(abs(hash(CSV)))
    for address, reason in {
        "gs://b/none.csv": "no such file or folder",
        "gs://closed/a.csv": "permission denied (Forbidden: ",
    }.items():
        with pytest.raises(DataError) as caught:
            open_source(address)
        assert str(caught.value).startswith(f"{address}: {reason}")


class LocalAsHdfs(ArrowFSWrapper):
    """As fsspec's own for HDFS: the same wrapper, over Arrow's local file system."""

    protocol = "hdfs"

    def __init__(self, host, port, **options):
        assert (host, port) == ("name", 8020)
        super().__init__(pyarrow.fs.LocalFileSystem(), **options)


def test_files_of_hdfs(tmp_path, monkeypatch, read_out):
    monkeypatch.setitem(sys.modules["fsspec.registry"]._registry, "hdfs", LocalAsHdfs)
    (tmp_path / "d").mkdir()
    for name in ("a.csv", "b.csv", "_SUCCESS"):
        (tmp_path / "d" / name).write_bytes(CSV if name.endswith("csv") else b"")
    for pattern in (f"hdfs://name:8020{tmp_path}/d", f"hdfs://name:8020{tmp_path}/d/*.csv"):
        source = open_source(pattern)
        assert source.files == tuple(f"hdfs://name:8020{tmp_path}/d/{n}.csv" for n in "ab")
        assert len(read_out(source, parts=3).rows) == 2000
        assert source.files[0].version
        assert source.files[0].sure_version is None
    os.utime(tmp_path / "d" / "a.csv", (1, 1))
    assert open_source(pattern).fingerprint == source.fingerprint
