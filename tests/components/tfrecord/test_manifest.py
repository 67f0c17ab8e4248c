import dataclasses
import json

import pytest

from penstock.components.errors import DataError
from penstock.components.tfrecord.manifest import (
    Manifest,
    RowAccount,
    check_shards,
    read_manifest,
    write_manifest,
)

SHARD = "Split-train/data_tfrecord-00001-of-00002"


def test_comes_back_as_it_was_written(artifact, tmp_path):
    manifest = read_manifest(artifact)
    write_manifest(tmp_path, manifest)
    assert read_manifest(tmp_path) == manifest
    assert (tmp_path / "manifest.json").read_text() == (artifact / "manifest.json").read_text()


def test_nothing_is_left_beside_it(artifact):
    assert sorted(path.name for path in artifact.iterdir()) == [
        "Split-eval", "Split-train", "manifest.json"
    ]  # fmt: skip


def test_lists_the_shards_of_all_splits(artifact):
    assert [shard.rows for shard in read_manifest(artifact).shards] == [10, 10, 5]


@pytest.mark.parametrize(
    "account",
    [
        {"read": 10, "written": {"train": 6, "eval": 3}},
        {"read": 10, "written": {"train": 10}, "quarantined": 1},
        {"read": 10, "written": {"train": 10}, "blank": 1},
    ],
)
def test_an_account_that_does_not_add_up_is_a_bug(account):
    with pytest.raises(ValueError, match="rows do not add up: read 10, but written "):
        RowAccount(**account)


def test_an_account_counts_quarantined_and_blank_rows():
    assert RowAccount(read=10, written={"train": 6, "eval": 1}, quarantined=2, blank=1).read == 10


def test_no_manifest_is_named(tmp_path):
    with pytest.raises(DataError) as caught:
        read_manifest(tmp_path)
    assert str(caught.value) == (
        f"{tmp_path}: no manifest.json; the shards were never finished or are not Penstock's"
    )


@pytest.mark.parametrize("text", ["", "{", "[]", "7", "null", '"text"', "{}"])
def test_what_is_no_manifest_is_named(text):
    with pytest.raises(DataError, match=r"^m\.json: not a Penstock manifest \("):
        Manifest.from_json(text, "m.json")


def test_another_version_is_named(artifact):
    raw = json.loads((artifact / "manifest.json").read_text())
    with pytest.raises(DataError) as caught:
        Manifest.from_json(json.dumps({**raw, "version": 2}), "m.json")
    assert str(caught.value) == (
        "m.json: manifest version 2, this Penstock reads 1; ingest again or upgrade"
    )


@pytest.mark.parametrize(
    "damage",
    [
        {"splits": {"train": [{"file": "a"}]}},
        {"account": {"read": 7, "written": {}}},
        {"columns": [{"name": "a", "type": "INT"}]},
        {"stranger": 1},
    ],
)
def test_a_damaged_manifest_is_named(artifact, damage):
    raw = json.loads((artifact / "manifest.json").read_text())
    with pytest.raises(DataError, match=r"^m\.json: damaged manifest \("):
        Manifest.from_json(json.dumps({**raw, **damage}), "m.json")


def test_sound_shards_pass_the_quick_check(artifact):
    check_shards(artifact, read_manifest(artifact))


def test_a_missing_shard_is_refused_by_name(artifact):
    (artifact / SHARD).unlink()
    with pytest.raises(DataError) as caught:
        check_shards(artifact, read_manifest(artifact))
    assert str(caught.value) == f"{artifact}/{SHARD}: shard is missing; the manifest lists it"


def test_a_cut_shard_is_refused_by_name(artifact):
    (artifact / SHARD).write_bytes(b"")
    with pytest.raises(DataError) as caught:
        check_shards(artifact, read_manifest(artifact))
    assert str(caught.value) == (
        f"{artifact}/{SHARD}: shard has 0 bytes, the manifest says 500; it was cut or altered, "
        "ingest again"
    )


def test_equal_manifests_give_equal_text(artifact):
    manifest = read_manifest(artifact)
    assert dataclasses.replace(manifest).to_json() == manifest.to_json()


@pytest.mark.parametrize("file", ["../secret", "Split-train/../../secret", "/etc/passwd"])
def test_a_shard_is_below_its_manifest(artifact, file):
    path = artifact / "manifest.json"
    raw = json.loads(path.read_text())
    raw["splits"]["train"][0]["file"] = file
    path.write_text(json.dumps(raw))
    with pytest.raises(DataError) as caught:
        read_manifest(artifact)
    assert str(caught.value) == (
        f"{path}: damaged manifest (shard {file!r} is no path below its folder)"
    )
