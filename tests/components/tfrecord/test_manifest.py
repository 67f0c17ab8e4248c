import dataclasses
import hashlib
import json

import pytest

from penstock.components.errors import DataError
from penstock.components.tfrecord.manifest import (
    Manifest,
    RowAccount,
    read_manifest,
    write_manifest,
)


def test_comes_back_as_it_was_written(artifact, tmp_path):
    manifest = read_manifest(artifact)
    write_manifest(tmp_path, manifest)
    assert read_manifest(tmp_path) == manifest
    assert (tmp_path / "manifest.json").read_text() == (artifact / "manifest.json").read_text()


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


def test_no_manifest_is_named(tmp_path):
    with pytest.raises(DataError) as caught:
        read_manifest(tmp_path)
    assert str(caught.value) == (
        f"{tmp_path}: no manifest.json; the shards were never finished or are not Penstock's"
    )
    (tmp_path / "file").touch()
    for name in ("file", "none"):
        with pytest.raises(DataError, match=f"{name}: no such folder of shards$"):
            read_manifest(tmp_path / name)


@pytest.mark.parametrize("text", ["", "{", "[]", "7", "null", '"text"', "{}"])
def test_what_is_no_manifest_is_named(text):
    with pytest.raises(DataError, match=r"^m\.json: not a Penstock manifest \("):
        Manifest.from_json(text, "m.json")


@pytest.mark.parametrize(
    ("damage", "text"),
    [
        ({"version": 2}, "manifest version 2, this Penstock reads 1; ingest again or upgrade$"),
        ({"splits": {"train": [{"file": "a"}]}}, r"damaged manifest \("),
        ({"account": {"read": 7, "written": {}}}, r"damaged manifest \("),
        ({"columns": [{"name": "a", "type": "INT"}]}, r"damaged manifest \("),
        ({"stranger": 1}, r"damaged manifest \("),
        ({"compression": "ZSTD"}, r"damaged manifest \("),
    ],
)
def test_a_damaged_manifest_or_another_version_is_named(artifact, damage, text):
    raw = json.loads((artifact / "manifest.json").read_text())
    with pytest.raises(DataError, match=rf"^m\.json: {text}"):
        Manifest.from_json(json.dumps({**raw, **damage}), "m.json")


@pytest.mark.parametrize(
    ("path", "value", "text"),
    [
        (("splits", "train", 0, "rows"), "10", r"splits.train\[0\].rows: .* 0 or more, got '10'"),
        (("splits", "train", 0, "sha256"), None, r"splits.train\[0\].sha256: expected a text"),
        (("account", "written", "train"), "20", "account.written.train: expected a whole number"),
        (("columns", 0, "is_list"), 1, r"columns\[0\].is_list: expected true or false, got 1"),
        (("packed",), "yes", "packed: expected an object"),
    ],
)
def test_a_value_of_another_type_is_named(artifact, path, value, text):
    raw = json.loads((artifact / "manifest.json").read_text())
    place = raw
    for step in path[:-1]:
        place = place[step]
    place[path[-1]] = value
    with pytest.raises(DataError, match=rf"^m\.json: damaged manifest \({text}"):
        Manifest.from_json(json.dumps(raw), "m.json")


def test_equal_manifests_give_equal_text(artifact):
    manifest = read_manifest(artifact)
    assert dataclasses.replace(manifest).to_json() == manifest.to_json()
    written = dataclasses.asdict(manifest)
    assert written.pop("source_snapshot") is None
    whole = json.dumps({"version": 1, **written}, indent=1) + "\n"
    assert manifest.to_json() == whole
    assert manifest.sha256 == hashlib.sha256(whole.encode()).hexdigest()


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
