import re
import sys

import pytest

from penstock.benchmarks import formats, messages, peers, table, torch_peers
from penstock.components.errors import DataError, UsageError

ROWS = table.SHUFFLED_ROWS


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    """The benchmark's table, with copies of it in the peers' formats."""
    folder = tmp_path_factory.mktemp("data")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("tempfile.tempdir", str(folder))
        found = table.prepare(ROWS)
        peers.make_peers(found, peers.rows_of_table(ROWS))
        peers.make_blocks(found, ROWS)
        yield found


@pytest.mark.parametrize("name", messages.FORMATS)
def test_what_is_written_is_read_again(name, tmp_path):
    write, read = messages.FORMATS[name]
    write(messages.made_users(40), 100, tmp_path / "users")  # 100 users: 40, repeated
    assert read(tmp_path / "users") == 100 * 280


@pytest.mark.slow
@pytest.mark.parametrize("name", peers.OF_TABLE)
def test_each_peer_has_every_row_once(name, root):
    measured = peers.read(None, peers.OF_TABLE[name], table.check, root, ROWS, 0.01)
    assert measured.rows % table.BATCH == 0
    assert measured.extra["bytes"] > 100


@pytest.mark.slow
def test_peer_that_lost_a_row_is_found_out(root, tmp_path):
    lost = list(peers.rows_of_table(ROWS))
    lost[7] = lost[8]
    peers.make_peers(tmp_path, iter(lost))
    (tmp_path / "sums.json").write_bytes((root / "sums.json").read_bytes())
    with pytest.raises(DataError, match="a pass sums to"):
        table.check(peers.webdataset_batches(tmp_path), ROWS, tmp_path)


def test_mapped_rows_are_those_of_the_table(tmp_path):
    payloads = list(peers.rows_of_table(100))
    torch_peers.make_mapped(tmp_path, iter(payloads))
    rows = torch_peers.MappedRows(tmp_path)
    assert len(rows) == 100
    for number, row in zip([99, 0, 41], rows.__getitems__([99, 0, 41]), strict=True):
        expected = peers.row_from(payloads[number])
        assert all((row[name] == expected[name]).all() for name in expected)


def test_torch_python_without_a_package_is_refused():
    for python, decisive in (("no/python", "No such file"), (sys.executable, "mosaicml-streaming")):
        with pytest.raises(UsageError, match=f"torch_python={re.escape(python)}: .*{decisive}"):
            formats.prepare(formats.Options(torch_python=python, images=0, users=0))
