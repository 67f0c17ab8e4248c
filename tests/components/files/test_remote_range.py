"""Reads parts of an object from a store that ignores the condition `IfMatch` of a request."""

import pytest
from fsspec.asyn import get_loop

from penstock.components.errors import DataError
from penstock.components.files import remote_range
from penstock.components.files.remote import RemoteFile


class Body:
    async def __aenter__(self):
        return self

    async def __aexit__(self, *_):
        pass

    async def read(self):
        return b"new!"


class Store:
    """Answers as S3 does, but always with the version `etag`, whichever version is requested."""

    req_kw, loop = {}, get_loop()

    def __init__(self, etag):
        self._etag = etag

    def split_path(self, path):
        return "bucket", "a", None

    async def _call_s3(self, method, **arguments):
        return {"ETag": self._etag, "Body": Body()}


@pytest.mark.parametrize("served", ['"old"', None])
def test_a_part_of_the_version_that_was_listed_is_read(monkeypatch, served):
    monkeypatch.setattr(remote_range, "file_system", lambda file: Store(served))
    file = RemoteFile("s3://bucket/a", 4, '"old"')
    assert remote_range.read_part(file, 0, 4) == b"new!"


def test_a_part_of_another_version_is_refused(monkeypatch):
    def changed(file):
        raise DataError(f"{file}: was changed since it was listed")

    monkeypatch.setattr(remote_range, "file_system", lambda file: Store('"new"'))
    monkeypatch.setattr(remote_range, "require_unchanged", changed)
    with pytest.raises(DataError, match="was changed since it was listed"):
        remote_range.read_part(RemoteFile("s3://bucket/a", 4, '"old"'), 0, 4)
