import gzip
import os

import pytest
from row_files import sequence_example

from penstock.components.errors import DataError
from penstock.components.tfrecord.unlisted import (
    check_unlisted,
    find_damage,
    require_examples,
)

RECORD_BYTES = 50


def write(tfrecord, row, rows=(10, 5), suffix=""):
    names = [f"a-{i:05d}-of-{len(rows):05d}{suffix}" for i in range(len(rows))]
    return [str(tfrecord(n, map(row, range(r)))) for n, r in zip(names, rows, strict=True)]


@pytest.mark.parametrize("suffix", ["", ".gz"])
def test_records_of_whole_files_are_counted(tfrecord, row, suffix):
    assert check_unlisted(write(tfrecord, row, suffix=suffix)) == (10, 5)


def test_a_missing_member_is_named(tfrecord, row, tmp_path):
    first, second = write(tfrecord, row)
    os.remove(second)
    with pytest.raises(DataError) as caught:
        check_unlisted([first])
    assert str(caught.value) == (
        f"{tmp_path}: of the 2 shards of 'a', a-00001-of-00002 is missing; "
        "bring back the whole set, and only that"
    )


@pytest.mark.parametrize(
    ("suffix", "left", "text"),
    [
        ("", 0, "zero bytes; an empty shard"),
        ("", 4 * RECORD_BYTES + 1, "record 4 at offset 200: the file is cut, it has 1 of the 12"),
        ("", 4 * RECORD_BYTES + 20, "record 4 at offset 200: the file is cut, it has 8 of the 34"),
        (".gz", -1, "GZIP data is cut: it ends without"),
        (".gz", -9, "GZIP data is cut: it ends without"),
    ],
)
def test_a_file_that_is_cut_is_named(tfrecord, row, suffix, left, text):
    files = write(tfrecord, row, suffix=suffix)
    os.truncate(files[1], left if left >= 0 else os.path.getsize(files[1]) + left)
    with pytest.raises(DataError, match=f"a-00001-of-00002{suffix}: {text}"):
        check_unlisted(files)


def test_a_file_that_changes_is_looked_at_again(tfrecord, row):
    files = write(tfrecord, row)
    assert check_unlisted(files) == (10, 5)
    os.truncate(files[1], 4 * RECORD_BYTES)
    assert check_unlisted(files) == (10, 4)


def test_damage_is_found_by_shard_record_and_offset(tfrecord, row, tmp_path):
    files = write(tfrecord, row)
    assert find_damage(files) is None
    data = bytearray((tmp_path / "a-00001-of-00002").read_bytes())
    data[3 * RECORD_BYTES + 20] ^= 1
    (tmp_path / "a-00001-of-00002").write_bytes(gzip.compress(data))
    assert "a-00001-of-00002: record 3 at offset 150: payload of 34" in find_damage(files)


@pytest.mark.parametrize("context", [{"c": [b"x"]}, {}])
def test_a_sequence_example_is_named_however_late_it_comes(tfrecord, row, context):
    sequence = sequence_example(context, s=[[1]])
    path = str(tfrecord("a", [*map(row, range(150)), b"", sequence, row(1)]))
    require_examples(path, records=100)
    for _ in range(2):
        with pytest.raises(DataError) as caught:
            require_examples(path)
        assert str(caught.value) == (
            f"{path}: record 151: is a SequenceExample, whose feature lists only Input.rows reads, "
            "given `feature_lists`; expected a tf.train.Example"
        )
    require_examples(str(tfrecord("b", map(row, range(150)))))
