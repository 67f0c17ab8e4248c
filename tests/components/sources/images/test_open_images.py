import os

import pytest

from penstock.components.errors import DataError, UsageError
from penstock.components.sources.images.source import find_images


def names(tree):
    return [found.name for found in tree.files]


def test_folders_are_recursive_and_names_are_below_them(photos):
    photos("b/1.jpg", b"x")
    photos("a/deep/er/2.jpg", b"x")
    root = photos("3.jpg", b"x")
    for given in (f"{root}", f"{root}/"):
        tree = find_images([given])
        assert names(tree) == ["3.jpg", "a/deep/er/2.jpg", "b/1.jpg"]
        assert [found.folder for found in tree.files] == [None, "a", "b"]
        assert all(os.path.exists(found.path) for found in tree.files)


def test_the_current_folder(photos, monkeypatch):
    monkeypatch.chdir(photos("a/1.jpg", b"x"))
    for given in (".", "./", "*", "**", "a", "a/*.jpg"):
        inside = given.startswith("a")
        assert names(find_images([given])) == (["1.jpg"] if inside else ["a/1.jpg"])


@pytest.mark.parametrize("pattern", ["*", "**", "*/*.jpg", "**/*.jpg", "**/*", "[ab]"])
def test_names_are_below_where_a_glob_begins(photos, pattern):
    photos("b/1.jpg", b"x")
    root = photos("a/2.jpg", b"x")
    assert names(find_images([f"{root}/{pattern}"])) == ["a/2.jpg", "b/1.jpg"]


def test_a_file_that_is_named_and_one_that_is_named_twice(photos):
    root = photos("a/1.jpg", b"x")
    assert names(find_images([f"{root}/a/1.jpg", f"{root}/a/../a/1.jpg"])) == ["1.jpg"]
    assert names(find_images([str(root), f"{root}/a"])) == ["a/1.jpg"]


def test_what_is_surely_no_image_is_left_out(photos):
    for name in ("README.md", "a/.DS_Store", "a/Thumbs.db", "labels.csv", "__MACOSX/._1.jpg",
                 ".git/x.jpg", "a/notes.txt"):  # fmt: skip
        photos(name, b"x")
    root = photos("a/_DSC0001.JPG", b"x")
    tree = find_images([str(root)])
    assert names(tree) == ["a/_DSC0001.JPG"]
    assert [path[len(str(root)) + 1 :] for path in tree.ignored] == [
        ".git", "README.md", "__MACOSX", "a/.DS_Store", "a/Thumbs.db", "a/notes.txt", "labels.csv",
    ]  # fmt: skip


def test_links_do_not_leave_the_folder(photos, tmp_path):
    (tmp_path / "secret").mkdir()
    (tmp_path / "secret" / "key.jpg").write_bytes(b"secret")
    root = photos("a/1.jpg", b"x")
    (root / "a" / "alias.jpg").symlink_to(root / "a" / "1.jpg")
    (root / "a" / "out.jpg").symlink_to(tmp_path / "secret" / "key.jpg")
    (root / "a" / "up.jpg").symlink_to("../../secret/key.jpg")
    (root / "a" / "gone.jpg").symlink_to("nowhere.jpg")
    (root / "b").symlink_to(tmp_path / "secret")
    for given in (str(root), f"{root}/*", f"{root}/**"):
        tree = find_images([given])
        assert names(tree) == ["a/1.jpg", "a/alias.jpg"]
        refused = {path[len(str(root)) + 1 :]: why for path, why in tree.refused.items()}
        refused.pop("b/key.jpg", None)  # which `**` gives
        secret = tmp_path / "secret"
        assert refused == {
            "a/out.jpg": f"is a link to {secret}/key.jpg, outside {root}; copy the file",
            "a/up.jpg": f"is a link to {secret}/key.jpg, outside {root}; copy the file",
            "a/gone.jpg": f"is a link to {root}/a/nowhere.jpg, which is not there",
            "b": f"is a link to the folder {secret}; links to folders are not followed",
        }
    tree = find_images([f"{root}/*/../../secret/*"])
    assert names(tree) == []
    assert set(tree.refused.values()) == {f"is not below {root}, or only through a link"}


def test_a_loop_of_links_ends(photos):
    root = photos("a/1.jpg", b"x")
    (root / "a" / "loop").symlink_to(root)
    for given in (str(root), f"{root}/**/*.jpg"):
        assert names(find_images([given])) == ["a/1.jpg"]


def test_a_root_that_is_a_link_is_what_it_links_to(photos, tmp_path):
    root = photos("a/1.jpg", b"x")
    (tmp_path / "latest").symlink_to(root)
    (root / "a" / "2.jpg").symlink_to("1.jpg")
    for given in ("latest", "latest/*", "latest/*/*.jpg"):
        assert names(find_images([str(tmp_path / given)])) == ["a/1.jpg", "a/2.jpg"]


def test_a_pipe_is_refused_and_not_waited_for(photos):
    root = photos("a/1.jpg", b"x")
    os.mkfifo(root / "a" / "2.jpg")
    assert list(find_images([str(root)]).refused.values()) == ["is neither a file nor a folder"]


def test_nothing_and_addresses_are_named(photos, tmp_path):
    root = photos("README.md", b"x")
    with pytest.raises(DataError) as error:
        find_images([str(root)])
    assert str(error.value) == f"{root}: no image file; expected at least one"
    with pytest.raises(DataError, match="nowhere: no such file or folder"):
        find_images([str(tmp_path / "nowhere")])
    with pytest.raises(UsageError, match=r"^minio://b/x: files are read from paths and s3, gs"):
        find_images(["minio://b/x"])
