import pytest

from penstock.benchmarks.made_photos import label_of, photos
from penstock.benchmarks.made_table import csv_file
from penstock.benchmarks.make_once import make_once


def test_what_is_there_is_not_made_again(tmp_path):
    made = []

    def make(path):
        made.append(path.name)
        path.write_text("whole")

    place = tmp_path / "folder" / "file"
    assert make_once(place, make) == make_once(place, make) == place
    assert len(made) == 1
    assert place.read_text() == "whole"


def test_what_fails_half_way_leaves_nothing(tmp_path):
    def make(path):
        path.mkdir()
        (path / "half").touch()
        raise OSError("disk full")

    with pytest.raises(OSError, match="disk full"):
        make_once(tmp_path / "data", make)
    assert list(tmp_path.iterdir()) == []


def test_the_table_is_the_same_each_time(tmp_path):
    one = csv_file(tmp_path / "one", 3).read_text().splitlines()
    assert one == csv_file(tmp_path / "two", 3).read_text().splitlines()
    assert len(one) == 4
    assert one[0].split(",")[-2:] == ['"s6"', '"s7"']


def test_photos_have_sizes_and_classes(tmp_path):
    from PIL import Image

    files = sorted(photos(tmp_path, 4).glob("*/*.jpg"))
    assert [(label_of(file), Image.open(file).size) for file in files] == [
        (0, (500, 333)),
        (1, (500, 375)),
        (2, (500, 375)),
        (3, (500, 333)),
    ]
