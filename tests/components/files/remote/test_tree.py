"""Whole files as rows with their names, on moto's S3 server."""

import pytest

from penstock.components.sources.binary import Binary
from penstock.components.sources.open import open_source


@pytest.fixture
def bucket(s3):
    for key in ("d/a/1.txt", "d/2.txt", "d/.hidden/3.txt", "d/_SUCCESS", "other/4.txt"):
        s3.put_object(Bucket="bucket", Key=key, Body=f"{key}\n".encode())


@pytest.mark.parametrize("given", ["s3://bucket/d", "S3://bucket/d/", "s3://bucket/d/**"])
def test_names_are_below_the_folder(bucket, given, read_out):
    source = open_source(given, Binary())
    out = read_out(source, 2)
    assert sorted(out.rows, key=lambda row: row[1]) == [
        [b"d/2.txt\n", b"2.txt", 8],
        [b"d/a/1.txt\n", b"a/1.txt", 10],
    ]
    assert source.ignored == ("s3://bucket/d/.hidden/3.txt", "s3://bucket/d/_SUCCESS")


@pytest.mark.slow
@pytest.mark.parametrize("pattern", ["*", "**", "[ac]*", "cat*", "*/*"])
def test_a_glob_gives_folders_with_all_in_them_as_on_a_path(s3, pattern, tmp_path, read_out):
    names = ("cover.txt", "cat/1.txt", "cat/old/2.txt", "ant/.hidden/3.txt", "dog/4.txt")
    for name in names:
        s3.put_object(Bucket="bucket", Key=f"photos/{name}", Body=name.encode())
        (tmp_path / "photos" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "photos" / name).write_text(name)
    remote = read_out(open_source(f"s3://bucket/photos/{pattern}", Binary()))
    local = read_out(open_source(f"{tmp_path}/photos/{pattern}", Binary()))
    assert sorted(remote.rows) == sorted(local.rows)
    if pattern == "*":
        assert sorted(row[1] for row in remote.rows) == [
            b"cat/1.txt", b"cat/old/2.txt", b"cover.txt", b"dog/4.txt"
        ]  # fmt: skip
