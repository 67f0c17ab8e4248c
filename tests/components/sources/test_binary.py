"""Whole files as rows, from the folder to Examples."""

import os
import pickle
import tempfile
from pathlib import Path

import pytest

from penstock.components.sources.base import Column
from penstock.components.sources.binary import Binary
from penstock.components.sources.open import open_source
from penstock.components.sources.plain_text import Text
from penstock.components.tfrecord.feature_kind import FeatureKind


@pytest.fixture
def put(tmp_path):
    """Writes a file below `scans/`, and says where that is."""
    root = tmp_path / "scans"
    root.mkdir()

    def write(name, data=b"x"):
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
        return root

    return write


def open_binary(inputs, **options):
    return open_source(str(inputs), Binary(**options))


def names(out):
    return sorted(row[1].decode() for row in out.rows)


def test_rows_are_the_files_of_a_tree(put, read_out):
    put("a/deep/1.bin", b"\x00\xff\r\n")
    put("a/2.json", b"{}")
    root = put("3", bytes(range(256)))
    source = open_binary(root)
    assert source.columns == (
        Column("content", FeatureKind.BYTES),
        Column("filename", FeatureKind.BYTES),
        Column("size", FeatureKind.INT),
    )
    assert (source.kind, source.rows, source.input_bytes) == ("binary", 3, 262)
    for parts in (1, 2, 7):
        out = read_out(pickle.loads(pickle.dumps(source)), parts)
        assert sorted(out.rows, key=lambda row: row[1]) == [
            [bytes(range(256)), b"3", 256],
            [b"{}", b"a/2.json", 2],
            [b"\x00\xff\r\n", b"a/deep/1.bin", 4],
        ]
    assert sorted(source.files) == [f"{root}/{name}" for name in ("3", "a/2.json", "a/deep/1.bin")]


def test_a_folder_is_a_label_if_asked_for(put, read_out):
    put("good/1")
    put("bad/deep/2")
    root = put("3")
    source = open_binary(root, folder_label=True)
    assert source.columns[3] == Column("label", FeatureKind.BYTES)
    labels = {name: label for _, name, _, label in read_out(source, 2).rows}
    assert labels == {b"good/1": b"good", b"bad/deep/2": b"bad", b"3": None}


def test_the_order_is_the_seeds_and_a_new_file_moves_no_other(put, read_out):
    for number in range(30):
        root = put(f"{number:02}", bytes([number, 1]))

    def order(**options):
        return [row[1] for row in read_out(open_binary(root, **options)).rows]

    first = order()
    assert first != sorted(first)
    assert sorted(first) == [b"%02d" % number for number in range(30)]
    assert order() == first
    assert order(shuffle_seed=1) != first
    put("30")
    assert [name for name in order() if name != b"30"] == first


def test_empty_files_are_bad_rows_or_counted_as_blank(put, read_out):
    put("a", b"x")
    root = put("b", b"")
    out = read_out(open_binary(root), 2)
    assert names(out) == ["a"]
    assert out.errors == [
        "b: is empty (0 bytes); remove it, or set `allow_empty` to skip such files"
    ]
    out = read_out(open_binary(root, allow_empty=True), 2)
    assert (names(out), out.errors, out.blank) == (["a"], [], 1)


def test_a_file_that_is_too_large_is_not_read(put, read_out):
    put("a", b"x")
    root = put("b", bytes(2**20))
    with (root / "c").open("wb") as file:
        file.truncate(2**20 + 1)
    source = open_binary(root, max_mib=1)
    assert [str(row) for row in source.rejected_by_scan] == [
        f"{root}/c: has 1,048,577 bytes, more than 1,048,576; not read"
    ]
    out = read_out(source, 2)
    assert names(out) == ["a", "b"]
    assert out.errors == ["c: has 1,048,577 bytes, more than 1,048,576; not read"]


@pytest.fixture
def as_nobody():
    """A folder that anyone may read, looked at by a user who is not root."""
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o755)
        before = os.geteuid()
        yield Path(folder)
        os.seteuid(before)


def test_a_file_that_may_not_be_read_is_a_bad_row(as_nobody, read_out):
    for name in ("a", "b"):
        (as_nobody / name).write_bytes(b"x")
        (as_nobody / name).chmod(0o644)
    (as_nobody / "b").chmod(0)
    if os.geteuid() == 0:
        os.seteuid(65534)
    out = read_out(open_binary(as_nobody), 2)
    assert names(out) == ["a"]
    assert out.errors == ["b: cannot be opened (Permission denied); grant read permission"]


@pytest.mark.parametrize("options", [Binary(folder_label=True), Text(), Text(unit="document")])
@pytest.mark.parametrize("name", [b"caf\xe9", "café".encode()])
def test_names_are_the_bytes_of_the_file_system(put, options, name, read_out):
    put("a/plain.txt")
    root = put(f"{os.fsdecode(name)}/b.txt")
    source = open_source(str(root), options)
    assert sorted(row[1] for row in read_out(source).rows) == [b"a/plain.txt", name + b"/b.txt"]
