import json
from dataclasses import asdict

import pytest

from penstock.components.errors import UsageError
from penstock.components.sources.images.options import Images
from penstock.components.sources.kinds import (
    KINDS,
    find_kind,
    options_from_json,
    options_type,
)
from penstock.components.sources.options import Csv, Parquet, Table


@pytest.mark.parametrize(
    "options",
    [
        Csv(delimiter="\t", column_names=("a", "b")),
        Images(labels_file="cars.mat", layout="resized", size=299),
    ],
)
def test_options_travel_as_json(options):
    assert options_from_json(json.loads(json.dumps(asdict(options)))) == options


def test_a_delimiter_has_a_name():
    assert Csv(delimiter="tab").delimiter == "\t"


def test_without_a_kind_options_are_those_of_tables():
    assert options_type(None) is Table
    assert options_from_json(asdict(Table())) == Table()


def test_options_of_a_table_with_a_kind_become_those_of_the_kind():
    table = Table(kind="parquet", non_finite="null", sample_rows=5)
    assert options_from_json(asdict(table)) == Parquet(non_finite="null")


def test_an_unknown_kind_lists_the_choices():
    with pytest.raises(UsageError, match=r"`kind` must be one of csv, parquet.*, got 'xls'"):
        find_kind("xls")


@pytest.mark.parametrize("name", sorted(KINDS))
def test_every_kind_loads(name):
    kind = KINDS[name]
    assert "kind" in kind.options_type.__dataclass_fields__
    assert callable(kind.load_opener())
