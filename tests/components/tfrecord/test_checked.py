import json
import os
import re
import time

import pytest

from penstock.components.errors import DataError
from penstock.components.tfrecord import checked
from penstock.components.tfrecord.checked import (
    DIGESTS_NAME,
    check_folder,
    check_listed,
    checked_manifest,
    find_scopes,
    shard_faults,
)

SHARD = "Split-train/data_tfrecord-00001-of-00002"


def faults(path):
    return [fault for scope in find_scopes(path) for fault in shard_faults(scope)]


@pytest.fixture
def settled(monkeypatch):
    """Makes new files count as settled at once, not only after some seconds without a change."""
    monkeypatch.setattr(checked, "_SETTLED_NS", -(10**12))


def test_sound_shards_pass(artifact):
    assert checked_manifest(artifact).account.read == 25
    assert check_listed(artifact)
    assert check_listed(artifact / "Split-train")
    assert check_listed(f"{artifact}/Split-*/*")
    assert check_listed(artifact / SHARD)


def test_where_no_manifest_speaks_nothing_is_said(tmp_path, tfrecord, row):
    tfrecord("Split-train/a", [row(0)])
    assert not check_listed(tmp_path)
    assert not check_listed(f"{tmp_path}/Split-train/*")
    check_folder(str(tmp_path))


def test_a_missing_shard_is_refused_by_name(artifact):
    (artifact / SHARD).unlink()
    text = f"{artifact}/{SHARD}: shard is missing; the manifest lists it with 10 rows"
    for path in (artifact, artifact / "Split-train", f"{artifact}/Split-train/*", artifact / SHARD):
        assert faults(path) == [text]
    assert faults(artifact / "Split-eval") == []
    assert faults(f"{artifact}/*/*-00000-of-*") == []
    with pytest.raises(DataError) as caught:
        checked_manifest(artifact)
    assert str(caught.value) == text


def as_folder(shard):
    shard.unlink()
    shard.mkdir()


@pytest.mark.parametrize(
    ("damage", "text"),
    [
        (lambda shard: shard.write_bytes(b""), "shard has 0 bytes, the manifest says 500; it was"),
        (lambda shard: shard.write_bytes(shard.read_bytes()[::-1]), "sha256 "),
        (as_folder, "not a file; the manifest lists it as a shard"),
    ],
)
def test_a_shard_that_differs_is_refused_by_name(artifact, damage, text):
    damage(artifact / SHARD)
    [fault] = faults(artifact)
    assert fault.startswith(f"{artifact}/{SHARD}: {text}")
    with pytest.raises(DataError, match=re.escape(fault)):
        checked_manifest(artifact)


def test_digests_are_computed_once_for_each_state_of_a_file(artifact, settled, monkeypatch):
    checked_manifest(artifact)
    kept = json.loads((artifact / DIGESTS_NAME).read_text())
    assert sorted(kept) == sorted(shard.file for shard in checked_manifest(artifact).shards)
    monkeypatch.setattr(checked.hashlib, "sha256", None)
    checked_manifest(artifact)


def test_an_altered_file_with_its_times_put_back_is_found(artifact, settled, frame, row):
    checked_manifest(artifact)
    before = (artifact / SHARD).stat()
    (artifact / SHARD).write_bytes(b"".join(frame(row(9 - i)) for i in range(10)))
    os.utime(artifact / SHARD, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert (artifact / SHARD).stat().st_mtime_ns == before.st_mtime_ns
    assert len(faults(artifact)) == 1


def test_a_file_that_was_written_a_moment_ago_is_not_remembered(artifact):
    os.utime(artifact / SHARD, (time.time(), time.time()))
    checked_manifest(artifact)
    assert not (artifact / DIGESTS_NAME).exists()


@pytest.mark.parametrize("text", ["", "[]", '{"a": 1}', "\0"])
def test_damaged_digests_are_computed_anew(artifact, text):
    (artifact / DIGESTS_NAME).write_text(text)
    checked_manifest(artifact)
