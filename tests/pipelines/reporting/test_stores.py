import pytest

from penstock.components.errors import DataError
from penstock.pipelines.reporting.stores import find_stores


def test_a_folder_whose_name_begins_as_another_one_is_looked_into(tmp_path):
    names = [f"a{i}" for i in range(1, 12)]
    for name in names:
        (tmp_path / name).mkdir()
        (tmp_path / name / "metadata.sqlite").touch()
    (tmp_path / "a/metadata/taxi").mkdir(parents=True)
    (tmp_path / "a/metadata/taxi/metadata.db").touch()
    assert [store.path for store in find_stores(str(tmp_path))] == [
        f"{tmp_path}/a/metadata/taxi/metadata.db",
        *sorted(f"{tmp_path}/{name}/metadata.sqlite" for name in names),
    ]


def test_the_artifacts_of_a_run_are_not_looked_into(tmp_path):
    (tmp_path / "run/Gen/metadata").mkdir(parents=True)
    (tmp_path / "run/metadata.sqlite").touch()
    (tmp_path / "run/Gen/metadata/metadata.db").touch()
    assert [store.path for store in find_stores(str(tmp_path))] == [
        f"{tmp_path}/run/metadata.sqlite"
    ]


def test_no_metadata(tmp_path):
    with pytest.raises(DataError) as caught:
        find_stores(str(tmp_path))
    assert str(caught.value) == (
        f"{tmp_path}: no metadata of runs (metadata.sqlite or metadata.db); name the folder of a "
        "run, its metadata file, or another --root"
    )
