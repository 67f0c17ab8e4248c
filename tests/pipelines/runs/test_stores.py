import sqlite3
from contextlib import closing

import pytest

from penstock.components.errors import DataError
from penstock.pipelines.runs.metadata_store import SqliteStore, open_reading
from penstock.pipelines.runs.stores import find_stores, report_name


def make_tables(file, *names):
    with closing(sqlite3.connect(file)) as store:
        for name in names:
            store.execute(f'create table "{name}" (id integer)')
        store.commit()


def test_a_folder_whose_name_begins_as_another_one_is_looked_into(tmp_path):
    names = [f"a{i}" for i in range(1, 12)]
    for name in names:
        (tmp_path / name).mkdir()
        (tmp_path / name / "metadata.sqlite").touch()
    (tmp_path / "a/metadata/taxi").mkdir(parents=True)
    (tmp_path / "a/metadata/taxi/metadata.db").touch()
    (tmp_path / "a1/Gen/metadata").mkdir(parents=True)  # artifacts of a run are not searched
    (tmp_path / "a1/Gen/metadata/metadata.db").touch()
    assert [store.path for store in find_stores(str(tmp_path))] == [
        f"{tmp_path}/a/metadata/taxi/metadata.db",
        *sorted(f"{tmp_path}/{name}/metadata.sqlite" for name in names),
    ]


def test_metadata_of_any_name_is_found_by_its_tables(tmp_path):
    (tmp_path / "taxi").mkdir()
    (tmp_path / "taxi/metadata.sqlite").touch()
    make_tables(tmp_path / "mine.sqlite", "Context", "Execution")
    make_tables(tmp_path / "a#b?.db", "Context", "Execution", "Type")
    make_tables(tmp_path / "fares.db", "trips")
    (tmp_path / "text.sqlite").write_text("no database")
    (tmp_path / "empty.db").touch()
    with closing(sqlite3.connect(tmp_path / "mine.sqlite")) as busy:
        busy.execute("begin exclusive")
        found = [store.path for store in find_stores(str(tmp_path))]
    assert found == [
        f"{tmp_path}/a#b?.db",
        f"{tmp_path}/mine.sqlite",
        f"{tmp_path}/taxi/metadata.sqlite",
    ]


def test_a_database_of_other_things_is_one_line(tmp_path):
    make_tables(tmp_path / "fake.sqlite", "trips")
    store = SqliteStore(str(tmp_path / "fake.sqlite"))
    with pytest.raises(DataError, match=r"fake.sqlite: is no metadata"), open_reading(store):
        pass


@pytest.mark.parametrize(
    ("metadata", "pipeline", "name"),
    [
        ("runs/taxi/metadata.sqlite", "taxi", "report.html"),
        ("metadata.db", "taxi", "report.html"),
        ("runs/mine.sqlite", "mine", "mine-report.html"),
        ("runs/all.db", "a/b c", "a-b-c-report.html"),
    ],
)
def test_what_a_report_is_called(metadata, pipeline, name):
    assert report_name(metadata, pipeline) == name
