import os
from pathlib import Path

import pytest

from penstock.components.errors import DataError, UsageError
from penstock.components.files.find import SHARDS, find
from penstock.components.sources.open import open_source
from penstock.components.sources.options import Table


@pytest.fixture
def tree(tmp_path, monkeypatch):
    """A function that makes files at paths below the test's folder, the working directory."""
    monkeypatch.chdir(tmp_path)

    def make(*paths):
        for path in paths:
            Path(path).parent.mkdir(parents=True, exist_ok=True)
            Path(path).write_text("a\n1\n")

    return make


@pytest.mark.parametrize(
    ("kind", "files", "ignored"),
    [
        ("csv", "a.csv b.csv", "_SUCCESS photo.png schema.pbtxt"),
        (None, "part-00000 part-00001", ".part-00000.crc README"),  # no file has a known suffix
        (None, "1.csv 2.csv.gz", "3.gz"),
    ],
)
def test_folder_gives_its_own_data_files_in_order(tree, caplog, kind, files, ignored):
    files, ignored = ([f"d/{name}" for name in names.split()] for names in (files, ignored))
    tree(*files[::-1], *ignored, "d/sub/c.txt")
    with caplog.at_level("INFO"):
        listing = find("d", kind)
    assert list(listing.files) == files
    assert listing.ignored == ignored
    assert f"ignored {len(ignored)} stray file" in caplog.text


def test_globs_and_recursion(tree):
    tree("d/1.csv", "d/sub/2.csv", "d/sub/_SUCCESS", "d/sub/deep/3.csv")
    assert find("d/*", None).files == ("d/1.csv",)
    assert find("d/**", None).files == ("d/1.csv", "d/sub/2.csv", "d/sub/deep/3.csv")
    assert find("d/**", None).ignored == ["d/sub/_SUCCESS"]
    assert find("d/[0-9].csv", None).files == ("d/1.csv",)


def test_a_named_file_is_taken_whatever_its_name_and_only_once(tree):
    tree("README", "d/1.csv", "d/x[1].csv")
    listing = find(["README", "d", "./d/1.csv", os.path.abspath("d/1.csv")], None)
    assert [os.path.basename(path) for path in listing.files] == ["README", "1.csv", "x[1].csv"]
    assert find("d/x[1].csv", None).files == ("d/x[1].csv",)


@pytest.mark.parametrize(
    ("kind", "what"),
    [(None, "data file"), ("images", "image file"), ("shards", "TFRecord file")],
)
def test_nothing_found_is_an_error(tree, kind, what):
    tree("d/README.md")
    for given, message in (
        ("nowhere", "no such file or folder"),
        ("d/*.tsv", f"no {what} matches; expected at least one"),
        ("d", f"no {what} matches but d/README.md, which are not data; expected at least one"),
    ):
        with pytest.raises(DataError) as error:
            find(given, kind)
        assert str(error.value) == f"{given}: {message}"


def test_addresses_are_not_paths():
    with pytest.raises(UsageError) as error:
        find("minio://bucket/data.csv", None)
    assert str(error.value) == (
        "minio://bucket/data.csv: files are read from paths and s3, gs, http, https "
        "addresses; mount or copy what is elsewhere; a database is read by penstock ingest --kind "
        "sql, and penstock export --to parquet makes files of it"
    )
    with pytest.raises(UsageError, match="no input: name a file, a folder or a glob"):
        find([], None)


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


def names(found):
    return [file.name for file in found.entries]


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (["d"], ["3.jpg", "a/deep/er/2.jpg", "b/1.jpg"]),
        (["d/"], ["3.jpg", "a/deep/er/2.jpg", "b/1.jpg"]),
        (["d/*"], ["3.jpg", "a/deep/er/2.jpg", "b/1.jpg"]),
        (["d/**"], ["3.jpg", "a/deep/er/2.jpg", "b/1.jpg"]),
        (["d/**/*"], ["3.jpg", "a/deep/er/2.jpg", "b/1.jpg"]),
        (["d/**/*.jpg"], ["3.jpg", "a/deep/er/2.jpg", "b/1.jpg"]),
        (["d/*/*.jpg"], ["b/1.jpg"]),
        (["d/[ab]"], ["a/deep/er/2.jpg", "b/1.jpg"]),
        (["d/b/1.jpg", "d/b/../b/1.jpg"], ["1.jpg"]),
        (["d/b", "d"], ["1.jpg", "3.jpg", "a/deep/er/2.jpg"]),
    ],
)
def test_names_are_below_a_folder_or_the_fixed_part_of_a_glob(tree, given, expected):
    tree("d/b/1.jpg", "d/a/deep/er/2.jpg", "d/3.jpg")
    for kind in ("images", "binary", "shards"):
        found = find(given, kind)
        assert names(found) == expected
        folders = [name.split("/")[0] if "/" in name else None for name in expected]
        assert [file.folder for file in found.entries] == folders
        assert all(map(os.path.exists, found.files))


def test_names_below_the_current_folder(tree):
    tree("a/1.jpg")
    for given in (".", "./", "*", "**", "a", "a/*.jpg"):
        assert names(find(given, "images")) == ["1.jpg" if given.startswith("a") else "a/1.jpg"]


@pytest.mark.parametrize(
    ("kind", "files", "ignored"),
    [
        (
            "images",
            ["a/_DSC0001.JPG"],
            [".git", "README.md", "__MACOSX", "a/.DS_Store", "a/Thumbs.db", "a/notes.txt", "l.csv"],
        ),
        (
            "text",
            ["a/_DSC0001.JPG", "a/notes.txt", "l.csv"],
            [".git", "README.md", "__MACOSX", "a/.DS_Store", "a/Thumbs.db"],
        ),
        (
            "shards",
            [],
            [".git", "README.md", "__MACOSX", "a/.DS_Store", "a/Thumbs.db", "a/_DSC0001.JPG",
             "a/notes.txt", "l.csv"],
        ),
    ],
)  # fmt: skip
def test_files_that_are_certainly_not_data_are_ignored(tree, kind, files, ignored):
    tree(
        "d/README.md", "d/a/.DS_Store", "d/a/Thumbs.db", "d/l.csv", "d/__MACOSX/._1.jpg",
        "d/.git/x.jpg", "d/a/notes.txt", "d/a/_DSC0001.JPG", "d/part-r-00000",
    )  # fmt: skip
    found = find("d", kind)
    assert names(found) == [*files, "part-r-00000"]
    assert [path[2:] for path in found.ignored] == ignored


def test_shards_beside_a_manifest_markers_and_unfinished_files(tree):
    tree(
        "d/manifest.json", "d/.digests.json", "d/_SUCCESS", "d/quarantine/rejected-00000.jsonl",
        "d/Split-train/data_tfrecord-00000-of-00001", "d/beam-temp-shard-71c0/8d48", "d/x[1]",
    )  # fmt: skip
    found = find("d", "shards")
    assert names(found) == ["Split-train/data_tfrecord-00000-of-00001", "x[1]"]
    assert found.ignored == [
        "d/_SUCCESS", "d/beam-temp-shard-71c0", "d/quarantine/rejected-00000.jsonl"
    ]  # fmt: skip
    assert names(find("d/x[1]", "shards")) == ["x[1]"]
    assert names(find("d/_SUCCESS", "shards")) == ["_SUCCESS"]


def test_links_do_not_leave_the_folder_of_images(tree, tmp_path):
    tree("d/a/1.jpg", "secret/key.jpg")
    root, secret = tmp_path / "d", tmp_path / "secret"
    (root / "a" / "alias.jpg").symlink_to(root / "a" / "1.jpg")
    (root / "a" / "out.jpg").symlink_to(secret / "key.jpg")
    (root / "a" / "up.jpg").symlink_to("../../secret/key.jpg")
    (root / "a" / "gone.jpg").symlink_to("nowhere.jpg")
    os.mkfifo(root / "a" / "pipe.jpg")
    (root / "b").symlink_to(secret)
    for given in (str(root), f"{root}/*", f"{root}/**"):
        found = find(given, "images")
        assert names(found) == ["a/1.jpg", "a/alias.jpg"]
        refused = {path[len(str(root)) + 1 :]: why for path, why in found.refused.items()}
        refused.pop("b/key.jpg", None)  # `**` also returns this file
        assert refused == {
            "a/out.jpg": f"is a link to {secret}/key.jpg, outside {root}; copy the file",
            "a/up.jpg": f"is a link to {secret}/key.jpg, outside {root}; copy the file",
            "a/gone.jpg": f"is a link to {root}/a/nowhere.jpg, which is not there",
            "a/pipe.jpg": "is neither a file nor a folder",
            "b": f"is a link to the folder {secret}; links to folders are not followed",
        }
    found = find(f"{root}/*/../../secret/*", "images")
    assert names(found) == []
    assert set(found.refused.values()) == {f"is not below {root}, or only through a link"}


def test_a_loop_of_links_ends_and_a_root_may_be_a_link(tree, tmp_path):
    tree("d/a/1.jpg")
    (tmp_path / "d/a/loop").symlink_to(tmp_path / "d")
    (tmp_path / "latest").symlink_to("d")
    (tmp_path / "d/a/2.jpg").symlink_to("1.jpg")
    for given in ("d", "d/**/*.jpg", "latest", "latest/*", "latest/*/*.jpg"):
        assert names(find(given, "images")) == ["a/1.jpg", "a/2.jpg"]


@pytest.mark.parametrize("make", [os.mkfifo, lambda path: os.symlink("gone.csv", path)])
def test_pipe_or_broken_link_among_data_is_named_not_left_out(tree, make):
    tree("d/a.csv")
    make("d/b.csv")
    for pattern in ("d", "d/*.csv"):
        with pytest.raises(DataError, match=r"^d/b\.csv: a broken link, a pipe or a device;"):
            find(pattern, "csv")


@pytest.mark.parametrize("path", ["pipe", "/dev/zero"])
def test_endless_input_is_refused_before_it_is_read(tree, path):
    os.mkfifo("pipe")
    with pytest.raises(DataError, match=f"^{path}: not a regular file"):
        find(path, None)


def test_names_that_begin_as_a_readme_are_data_and_suffixes_of_folders_say_nothing(tree):
    tree("d/license-plates.tfrecord", "d/readme-texts.tfrecord", "d/README.md", "d/LICENSE")
    tree("d/license/a.tfrecord", "d/data.json/b.tfrecord", "d/_temporary/c.tfrecord")
    assert find("d", SHARDS).files == (
        "d/data.json/b.tfrecord", "d/license-plates.tfrecord", "d/license/a.tfrecord",
        "d/readme-texts.tfrecord",
    )  # fmt: skip
