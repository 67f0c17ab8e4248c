"""Flags of `penstock init`, and the hints of its errors."""

import re

import pytest

import penstock
from penstock.components.errors import DataError, UsageError
from penstock.pipelines.cli import init


@pytest.fixture
def rows(tmp_path):
    file = tmp_path / "rows.csv"
    lines = [f"P{i % 60};{i % 7};{i % 5};{'' if i % 6 == 0 else i * 1.5}" for i in range(300)]
    file.write_text("\n".join(["patient;x;shop;pay", *lines]) + "\n")
    return file


def test_init_flags_reach_the_package(tmp_path, rows):
    init.command(
        name=tmp_path / "my_pay",
        data=str(rows),
        targets=["pay"],
        drop=["x"],
        role=["shop=category"],
        group="patient",
        source=["delimiter=;", "null_tokens=['', none]"],
    )
    package = tmp_path / "my_pay" / "my_pay"
    config = (package / "config.py").read_text()
    assert 'source: Table = Table(non_finite="null", delimiter=";", null_tokens=("", "none"))' in (
        config
    )
    assert 'group: str | None = "patient"' in config
    assert 'ingest: IngestOptions = IngestOptions(skip_missing=("pay",))' in config
    found = {}
    code = (package / "features.py").read_text().replace("from penstock.recipes import Target", "")
    exec(code, {"Target": lambda *_, **__: None}, found)
    assert found["CATEGORIES"] == {"shop": 5}
    assert found["LEFT_OUT"] == {"patient": "its rows stay in one split", "x": "dropped on request"}


def test_init_repr_is_short(tmp_path, rows):
    made = penstock.init(
        tmp_path / "my_pay2", str(rows), target="pay", drop=["x"], roles={"shop": "category"},
        group="patient",
    )  # fmt: skip
    assert len(repr(made)) < 300


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"drop": ["zz"]}, "no column 'zz'; choices: patient, x, shop, pay"),
        ({"role": ["x"]}, "--role takes NAME=VALUE, got 'x'"),
        ({"role": ["x=numbr"]}, "role of 'x': no role 'numbr'; did you mean 'number'?"),
        ({"role": ["patient=number"]}, "role of 'patient': holds texts such as 'P0', no numbers"),
        ({"role": ["pay=number"]}, "column 'pay' has two roles; give it one"),
        ({"group": "pay"}, "group 'pay': must hold texts or whole numbers"),
        ({"source": ["delimitr=;"]}, "delimitr: no such option; did you mean 'delimiter'?"),
        ({"source": ["schema_file=a"]}, "--source schema_file=...: the package gets a schema of"),
    ],
)
def test_init_wrong_option_is_named(tmp_path, rows, options, message):
    with pytest.raises(UsageError, match=re.escape(message)):
        init.command(name=tmp_path / "mine", data=str(rows), targets=["pay"], **options)


def test_init_hint_of_an_empty_file_is_a_flag_of_init(tmp_path):
    (tmp_path / "empty.csv").touch()
    with pytest.raises(DataError, match=r"set --source allow_empty=\.\.\. to skip"):
        init.command(name=tmp_path / "mine", data=str(tmp_path / "empty.csv"), targets=["y"])
