"""Files by current writers (`corpus/make.py`) are read correctly, or the error says why not."""

from pathlib import Path

import pytest
from reading import rows_of

from penstock.components.errors import DataError
from penstock.components.sources.open import open_source
from penstock.components.sources.options import Parquet

CORPUS = Path(__file__).parent / "corpus"
PLAIN = sorted([*CORPUS.glob("*plain.*"), *CORPUS.glob("duckdb*[dy].parquet")])
# Files that newer versions of pyarrow can read, but pyarrow 10 (Penstock's on Python 3.10) cannot.
NEW = [*CORPUS.glob("pyarrow-*-[dfs]*.parquet"), *CORPUS.glob("polars*.arrow")]
MICROSECONDS_A_DAY = 86_400_000_000


def read(path, options=None):
    return rows_of(open_source(str(path), options), 3)


def read_or_refusal(path):
    try:
        return read(path)
    except DataError as error:
        return str(error)


@pytest.mark.parametrize("path", [one for one in PLAIN if one not in NEW], ids=lambda p: p.name)
def test_a_plain_table_of_each_writer_is_read(path):
    rows = read(path)
    assert [row["id"] for row in rows] == list(range(20))
    assert rows[4]["name"] is None
    assert rows[5]["name"] == b"n5"
    assert rows[5]["score"] == 1.25
    assert rows[5]["at"] == (19_723 + 5) * MICROSECONDS_A_DAY


@pytest.mark.parametrize("path", sorted(CORPUS.glob("*-text.*")), ids=lambda p: p.name)
def test_compressed_text_of_each_writer_is_read(path):
    rows = read(path)
    assert [row["id"] for row in rows] == list(range(20))
    assert (rows[4]["name"], rows[5]["name"], rows[5]["score"]) == (None, b"n5", 1.25)


def test_a_data_set_that_hugging_face_saved_is_read_split_by_split():
    [saved] = CORPUS.glob("datasets-*-saved")
    rows = read(saved / "train")
    assert [row["id"] for row in rows] == list(range(20))
    assert (rows[4]["name"], rows[5]["name"], rows[5]["label"]) == (None, b"n5", 1)
    assert len(read(saved / "test")) == 5
    with pytest.raises(DataError, match="does not include data files in its folders, such as"):
        open_source(str(saved))


@pytest.mark.parametrize("path", NEW, ids=lambda p: p.name)
def test_a_valid_file_that_the_reader_lacks_is_not_called_damaged(path):
    found = read_or_refusal(path)
    if isinstance(found, str) and "string_view" in found:  # pyarrow 18 reads text as a string view
        assert found.startswith(f"{path}: column 'name' has type string_view, which no feature")
    elif isinstance(found, str):
        assert found.startswith(f"{path}: cannot be read by pyarrow ")
        assert "use Python 3.11 or newer" in found
    else:
        assert len(found) == 20


@pytest.mark.parametrize("name", ["encrypted", "encrypted-columns"])
def test_encrypted_parquet_is_said_to_be_encrypted(name):
    [path] = CORPUS.glob(f"*-{name}.parquet")
    with pytest.raises(
        DataError, match="is encrypted, and no keys are read; decrypt it and write it again"
    ):
        read(path)


def test_an_interval_of_duckdb_is_refused_and_not_read_as_bytes():
    [path] = CORPUS.glob("duckdb-*-interval.parquet")
    with pytest.raises(
        DataError, match=r"column 'late' has type month_day_nano_interval, which no feature"
    ):
        read(path)
    assert read(path, Parquet(extra_columns="drop")) == [{"id": 1}]
