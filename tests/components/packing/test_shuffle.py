import os

from penstock.components.packing.shuffle import RowShuffler


def _open_files(folder):
    """Files below `folder` that this process has open, removed ones too."""
    targets = []
    for descriptor in os.listdir("/proc/self/fd"):
        try:
            targets.append(os.readlink(f"/proc/self/fd/{descriptor}"))
        except FileNotFoundError:
            continue
    return [target for target in targets if target.startswith(str(folder))]


def test_a_bucket_that_was_read_is_closed_and_gone(tmp_path):
    shuffler = RowShuffler(tmp_path, "train", seed=0, expected_bytes=4, memory_bytes=1)
    rows = [b"%07d" % i * 1000 for i in range(1000)]
    shuffler.add(rows)
    assert sorted(os.path.basename(name) for name in _open_files(tmp_path)) == [
        "train-000", "train-001", "train-002", "train-003"
    ]  # fmt: skip
    assert sorted(row for part in shuffler.shuffled([1000]) for row in part) == rows
    assert _open_files(tmp_path) == []
    assert list(tmp_path.iterdir()) == []
