import os
from pathlib import Path

import pytest

from penstock.components.errors import DataError, UsageError
from penstock.components.files.listing import list_files
from penstock.components.sources.open import open_source
from penstock.components.sources.options import Table


@pytest.fixture
def tree(tmp_path, monkeypatch):
    """A folder to work in, with files by path."""
    monkeypatch.chdir(tmp_path)

    def make(*paths):
        for path in paths:
            Path(path).parent.mkdir(parents=True, exist_ok=True)
            Path(path).write_text("a\n1\n")

    return make


def test_folder_gives_its_own_data_files_in_order(tree):
    tree("d/b.csv", "d/a.csv", "d/_SUCCESS", "d/sub/c.csv", "d/schema.pbtxt", "d/photo.png")
    listing = list_files("d", "csv")
    assert listing.files == ("d/a.csv", "d/b.csv")
    assert listing.ignored == ("d/_SUCCESS", "d/photo.png", "d/schema.pbtxt")


def test_folder_without_known_extensions_gives_all_that_is_not_stray(tree):
    tree("d/part-00000", "d/part-00001", "d/README", "d/.part-00000.crc")
    listing = list_files("d", None)
    assert listing.files == ("d/part-00000", "d/part-00001")
    assert listing.ignored == ("d/.part-00000.crc", "d/README")


def test_compressed_data_of_a_folder_are_not_passed_over(tree):
    tree("d/1.csv", "d/2.csv.gz", "d/3.gz")
    listing = list_files("d", None)
    assert listing.files == ("d/1.csv", "d/2.csv.gz")
    assert listing.ignored == ("d/3.gz",)


def test_globs_and_recursion(tree):
    tree("d/1.csv", "d/sub/2.csv", "d/sub/_SUCCESS", "d/sub/deep/3.csv")
    assert list_files("d/*", None).files == ("d/1.csv",)
    assert list_files("d/**", None).files == ("d/1.csv", "d/sub/2.csv", "d/sub/deep/3.csv")
    assert list_files("d/**", None).ignored == ("d/sub/_SUCCESS",)
    assert list_files("d/[0-9].csv", None).files == ("d/1.csv",)


def test_a_named_file_is_taken_whatever_its_name_and_only_once(tree):
    tree("README", "d/1.csv", "d/x[1].csv")
    listing = list_files(["README", "d", "./d/1.csv", os.path.abspath("d/1.csv")], None)
    assert [os.path.basename(path) for path in listing.files] == ["README", "1.csv", "x[1].csv"]
    assert list_files("d/x[1].csv", None).files == ("d/x[1].csv",)


@pytest.mark.parametrize(
    ("pattern", "message"),
    [
        ("nowhere.csv", "nowhere.csv: no such file or folder"),
        ("d/*.tsv", "d/*.tsv: no data file matches; expected at least one"),
        (
            "empty",
            "empty: no data file matches but empty/_SUCCESS, which are not data; "
            "expected at least one",
        ),
        (
            "photos",
            "photos: no data file matches but photos/Thumbs.db, which are not data; there are "
            "images below it: say --kind images",
        ),
        (
            "texts",
            "texts: no data file matches but texts/all.json, which are not data; JSON is read as "
            "one object a line (.jsonl), which `jq -c '.[]'` makes of an array",
        ),
    ],
)
def test_nothing_found_is_an_error(tree, pattern, message):
    tree("d/1.csv", "empty/_SUCCESS", "photos/cat/1.JPG", "photos/Thumbs.db", "texts/all.json")
    with pytest.raises(DataError) as error:
        list_files(pattern, None)
    assert str(error.value) == message


def test_addresses_are_not_paths():
    with pytest.raises(UsageError) as error:
        list_files("minio://bucket/data.csv", None)
    assert str(error.value) == (
        "minio://bucket/data.csv: files are read from paths and s3, gs, http, https "
        "addresses; mount or copy what is elsewhere; a database is read by penstock ingest --kind "
        "sql, and penstock export --to parquet makes files of it"
    )
    with pytest.raises(UsageError, match="no input: name a file, a folder or a glob"):
        list_files([], None)


def test_kinds_do_not_mix(tree):
    tree("d/1.csv", "d/2.parquet")
    with pytest.raises(DataError) as error:
        open_source("d")
    assert str(error.value) == (
        "files of several kinds match: csv (d/1.csv), parquet (d/2.parquet); say which kind to "
        "read, or name the files of one kind"
    )
    source = open_source("d", Table(kind="csv"))
    assert source.files == ("d/1.csv",)
    assert source.ignored == ("d/2.parquet",)


@pytest.mark.slow
@pytest.mark.parametrize("make", [os.mkfifo, lambda path: os.symlink("gone.csv", path)])
def test_pipe_or_broken_link_among_data_is_named_not_left_out(tree, make):
    tree("d/a.csv")
    make("d/b.csv")
    for pattern in ("d", "d/*.csv"):
        with pytest.raises(DataError, match=r"^d/b\.csv: a broken link, a pipe or a device;"):
            list_files(pattern, "csv")


@pytest.mark.slow
@pytest.mark.parametrize("path", ["pipe", "/dev/zero"])
def test_endless_input_is_refused_before_it_is_read(tree, path):
    os.mkfifo("pipe")
    with pytest.raises(DataError, match=f"^{path}: not a regular file"):
        list_files(path, None)
