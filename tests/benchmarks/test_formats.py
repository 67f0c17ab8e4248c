import re
import sys

import pytest

from penstock.benchmarks import (
    format_files,
    format_messages,
    format_peers,
    formats,
    made_table,
    torch_peers,
)
from penstock.benchmarks import input as rows_benchmark
from penstock.benchmarks import packed as packed_tables
from penstock.components.errors import DataError, UsageError

ROWS = format_peers.SHUFFLED_ROWS
FEW_ROWS = 2048


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    return tmp_path_factory.mktemp("data")


@pytest.fixture(scope="module")
def table(data):
    root = packed_tables.prepare(data, ROWS)
    format_peers.make_peers(root, format_peers.rows_of_table(ROWS))
    format_peers.make_blocks(root, ROWS)
    return root


def test_three_texts_of_a_table_may_be_unique():
    [batch] = made_table.batches(FEW_ROWS, unique=True)
    distinct = {name: len(batch[name].unique()) for name in made_table.STRINGS}
    assert {name for name, count in distinct.items() if count == FEW_ROWS} == {"s0", "s2", "s4"}
    [other] = made_table.batches(FEW_ROWS)
    assert batch["s1"] == other["s1"]


def test_packed_unique_texts_are_read_once_in_a_pass(data):
    root = packed_tables.prepare(data, ROWS, unique=True)
    for name in (format_peers.PACKED, format_peers.ROWS):
        assert format_peers.reader_of(name, format_peers.UNIQUE, root, ROWS)(0.01)


def test_users_are_the_same_each_time_and_have_posts_of_280_characters():
    users = format_messages.made_users(50)
    assert users == format_messages.made_users(50)
    assert {len(user["post"]) for user in users} == {280}
    assert all(user["post"].isascii() for user in users)
    assert len({user["post"] for user in users}) == 50


@pytest.mark.parametrize("name", format_messages.FORMATS)
def test_what_is_written_is_read_again(name, tmp_path):
    users, chosen = format_messages.made_users(40), format_messages.FORMATS[name]
    chosen.write(users, 100, tmp_path / "users")  # 40 users over and over
    assert chosen.read(tmp_path / "users") == 100 * 280


def test_a_message_keeps_all_fields():
    (user,) = format_messages.made_users(1)
    message_class = format_messages.user_message()
    read = message_class.FromString(message_class(**user).SerializeToString())
    assert {name: getattr(read, name) for name in user} == user


def test_compressed_shards_hold_the_same_rows(data, tmp_path):
    shards = sorted(rows_benchmark.shards(data, FEW_ROWS).iterdir())
    records = format_files.records(shards)
    assert len(records) == FEW_ROWS
    sizes = {}
    for name in format_files.COMPRESSIONS:
        format_files.write(tmp_path / name, records, name)
        sizes[name] = format_files.folder_bytes(tmp_path / name)
        batches = format_files.batches(tmp_path / name, name).as_numpy_iterator()
        seen = 0
        while seen < FEW_ROWS:
            seen += len(next(batches)["f0"])
        assert seen == FEW_ROWS
    assert sizes["GZIP 9"] < sizes["GZIP 6"] < sizes["GZIP 1"] < sizes["none"]


@pytest.mark.parametrize("count", format_files.SHARD_COUNTS.values())
def test_as_many_shards_as_are_asked_for(count, data):
    files = list(rows_benchmark.shards(data, FEW_ROWS, count).iterdir())
    assert len(files) == count
    assert len(format_files.records(files)) == FEW_ROWS


@pytest.mark.parametrize("name", format_peers.CONTENDERS[format_peers.TABLE])
def test_each_peer_has_every_row_once(name, table):
    read = format_peers.reader_of(name, format_peers.TABLE, table, ROWS)
    assert read(0.01) % packed_tables.BATCH_SIZE == 0
    chosen = format_peers.CONTENDERS[format_peers.TABLE][name]
    assert chosen.stored_bytes(table) > 100 * ROWS


def test_a_peer_that_lost_a_row_is_found_out(table, tmp_path):
    lost = list(format_peers.rows_of_table(ROWS))
    lost[7] = lost[8]
    root = tmp_path / "table"
    root.mkdir()
    (root / "sums.json").write_text((table / "sums.json").read_text())
    format_peers.make_peers(root, iter(lost))
    with pytest.raises(DataError, match=r"^a pass sums to .*, the table to "):
        format_peers.reader_of(format_peers.WEBDATASET, format_peers.TABLE, root, ROWS)


def test_rows_of_a_mapped_file_are_those_of_the_table(tmp_path):
    payloads = list(format_peers.rows_of_table(100))
    torch_peers.make_mapped(tmp_path, iter(payloads))
    rows = torch_peers.MappedRows(tmp_path)
    assert len(rows) == 100
    for number, row in zip((99, 0, 41), rows.__getitems__([99, 0, 41]), strict=True):
        expected = format_peers.row_from(payloads[number])
        assert all((row[name] == expected[name]).all() for name in expected)


def test_a_torch_python_without_a_package_is_refused_before_anything_runs():
    for python, decisive in (("no/python", "No such file"), (sys.executable, "mosaicml-streaming")):
        with pytest.raises(UsageError, match=f"torch_python={re.escape(python)}: .*{decisive}"):
            formats.run(formats.FormatsOptions(torch_python=python, images=0, users=0))
