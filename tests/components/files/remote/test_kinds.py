"""Files of every kind give the same rows on moto's S3 server as on the local disk."""

import os

import pytest
from PIL import Image
from reading import rows_of
from scipy.io import savemat

from penstock.components.sources.images.options import Images
from penstock.components.sources.open import open_source
from penstock.components.sources.options import Table
from tests.components.sources.test_contract import KINDS

pytestmark = pytest.mark.slow


@pytest.fixture
def places(s3, tmp_path):
    """A function that uploads a folder's files; it returns the folder and its address on S3."""

    def upload():
        for file in (tmp_path / "data").iterdir():
            s3.upload_file(str(file), "bucket", f"data/{file.name}")
        return str(tmp_path / "data"), "s3://bucket/data"

    (tmp_path / "data").mkdir()
    return upload


def assert_equal_sources(local, remote):
    rows = rows_of(local, 2)
    assert rows
    assert rows_of(remote, 2) == rows
    for name in ("columns", "kind", "input_bytes", "fingerprint"):
        assert getattr(remote, name) == getattr(local, name), name


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "sql"])
def test_rows_are_those_of_local_files(places, tmp_path, kind):
    write, options = KINDS[kind]
    for at in range(2):
        write(tmp_path / "data" / f"{at}", at)
    assert_equal_sources(*(open_source(f"{place}/*", options) for place in places()))
    assert os.listdir(os.environ["PENSTOCK_SPOOL"]) == []


def test_schema_and_labels_at_an_address_are_those_of_local_files(places, tmp_path):
    folder = tmp_path / "data"
    (folder / "a.csv").write_text("x\n1\n2\n")
    (folder / "schema.pbtxt").write_text('feature { name: "x" type: FLOAT }')
    for name in ("a.png", "b.png"):
        Image.new("RGB", (6, 4)).save(folder / name)
    savemat(folder / "labels.mat", {"file": ["a.png", "b.png"], "class": [1, 2]})
    both = places()
    tables, images = (
        [open_source(f"{place}/{name}", kind(**{option: f"{place}/{file}"})) for place in both]
        for name, kind, option, file in (
            ("a.csv", Table, "schema_file", "schema.pbtxt"),
            ("*.png", Images, "labels_file", "labels.mat"),
        )
    )
    assert_equal_sources(*tables)
    assert_equal_sources(*images)
    assert len(os.listdir(os.environ["PENSTOCK_SPOOL"])) == 2  # copies of schema and labels
