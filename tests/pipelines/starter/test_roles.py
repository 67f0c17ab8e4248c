"""Roles of the columns of tables."""

import json

import pytest
from tensorflow_metadata.proto.v0 import schema_pb2

from penstock.components.errors import DataError, UsageError
from penstock.components.sources.open import open_source
from penstock.components.sources.options import Table
from penstock.components.tfrecord.schema_features import parse_schema
from penstock.pipelines.starter.look import look_at, schema_text
from penstock.pipelines.starter.options import StarterOptions

ROWS = 100


def table(tmp_path, **columns):
    """A CSV of `ROWS` rows; a function of the row's number makes each column."""
    lines = [",".join(columns)]
    lines += [",".join(str(of(row)) for of in columns.values()) for row in range(ROWS)]
    file = tmp_path / "rows.csv"
    file.write_text("\n".join(lines) + "\n")
    return str(file)


def roles(tmp_path, target="y", **columns):
    data = table(tmp_path, **{"x": lambda i: i % 7, **columns})
    return look_at(data, StarterOptions(targets=(target,))).roles


@pytest.mark.parametrize(
    ("of", "task", "classes"),
    [
        (lambda i: "yes" if i % 2 else "no", "binary", ("no", "yes")),
        (lambda i: "stay" if i % 3 else "leave", "binary", ("stay", "leave")),  # class 1 is rarer
        (lambda i: i % 2 + 1, "binary", ("1", "2")),
        (lambda i: f"{i % 2}.0", "binary", ("0", "1")),
        (lambda i: "cba"[i % 3], "classes", ("a", "b", "c")),
        (lambda i: i % 11, "classes", tuple(map(str, range(11)))),
        (lambda i: i % 30, "regression", ()),
        (lambda i: i % 3 + 0.5, "regression", ()),
    ],
)
def test_task_follows_from_the_target_column(tmp_path, of, task, classes):
    [target] = roles(tmp_path, y=of).targets
    assert (target.task, target.classes) == (task, classes)


def test_roles_follow_from_the_values(tmp_path):
    words = ("red", "old", "small", "car", "house", "tree", "quickly")
    found = roles(
        tmp_path,
        y=lambda i: i % 2,
        customer_id=lambda i: f"C{i}",
        row=lambda i: 1000 + i,
        income=lambda i: i * 37,
        fee=lambda i: i / 3 if i % 5 else "",
        since=lambda i: f"2020-01-{i % 28 + 1:02d}",
        paid=lambda i: f"{i % 28 + 1}/3/2021",
        sold=lambda i: f"3/{i % 28 + 1}/2021 10:00",
        news=lambda i: "TRUE" if i % 2 else "false",
        flag=lambda i: i % 2,
        plan=lambda i: "abc"[i % 3],
        place=lambda i: "here" if i < 90 else f"there{i}",
        country=lambda i: "NL",
        empty=lambda i: "",
        heat=lambda i: i / 7 if i % 5 else "NaN",
        dose=lambda i: "." if i % 3 else i / 4,
        note=lambda i: " ".join(words[(i * k + k) % 7] for k in range(1, 5)) + f" {i}",
        **{"Unnamed: 0": lambda i: 7 * i % 100},
    )
    assert found.numbers == ["x", "income", "fee", "heat"]
    assert found.booleans == ["news", "flag"]
    assert found.dates == {"since": "ymd", "paid": "dmy", "sold": "mdy"}
    assert found.categories == {"plan": 3, "place": 1}
    assert list(found.texts) == ["note"]
    told = found.left_out.pop("dose")
    assert told.startswith("numbers and other texts; if '.' means that there is no value")
    assert found.left_out == {
        "customer_id": "looks like an id: 100 different values in 100 rows",
        "row": "looks like an id: 100 different values in 100 rows",
        "country": "'NL' in all rows",
        "empty": "no value in any row",
        "Unnamed: 0": "looks like an id: 100 different values in 100 rows",
    }


@pytest.mark.parametrize(
    ("columns", "error", "message"),
    [
        ({"z": lambda i: i}, UsageError, "no column 'y'; choices: x, z"),
        ({"y": lambda i: "a"}, DataError, "target 'y': 'a' in all rows; expected at least two"),
        (
            {"y": lambda i: f"t{i}"},
            DataError,
            "target 'y': 100 different texts in 100 rows are no classes",
        ),
        (
            {"y": lambda i: i % 2, "x": lambda i: 1},
            DataError,
            r"no column to predict y from \(x: '1' in all rows\)",
        ),
    ],
)
def test_useless_data_is_refused(tmp_path, columns, error, message):
    with pytest.raises(error, match=message):
        roles(tmp_path, **columns)


def test_rejected_row_stops_init(tmp_path):
    file = tmp_path / "rows.csv"
    file.write_bytes(b"x,city,y\n" + b"".join(b"%d,K\xf6ln,%d\n" % (i, i % 2) for i in range(90)))
    with pytest.raises(DataError, match=r"line 2 \(row 1\), column 'city': .*; a run would stop"):
        look_at(str(file), StarterOptions(targets=("y",)))


def test_list_columns_are_left_out_but_in_the_schema(tmp_path):
    file = tmp_path / "rows.jsonl"
    tags = ('["a", "b"]', "[]")
    file.write_text(
        "".join(f'{{"x": {i % 7}, "t": {tags[i % 2]}, "y": {i % 2}}}\n' for i in range(90))
    )
    look = look_at(str(file), StarterOptions(targets=("y",)))
    assert look.roles.left_out == {"t": "several values a row"}
    (tmp_path / "schema.pbtxt").write_text(schema_text(look))
    source = open_source(str(file), Table(schema_file=str(tmp_path / "schema.pbtxt")))
    [batch] = source.read(source.cut(1)[0])
    assert (batch.rows_read, batch.rejected) == (90, [])


def test_schema_has_types_domains_and_presence(tmp_path):
    columns = {
        "x": lambda i: i / 2,
        "rare": lambda i: i if i == 3 else "",  # need not be in each split
        "y": lambda i: f"{i % 2}.0",
    }
    look = look_at(table(tmp_path, **columns), StarterOptions(targets=("y",)))
    x, rare, y = parse_schema(schema_text(look), "schema.pbtxt").feature
    assert (x.type, x.value_count.max, x.presence.min_fraction) == (schema_pb2.FLOAT, 1, 0)
    assert (y.type, y.value_count.max, y.presence.min_fraction) == (schema_pb2.INT, 1, 1)
    assert (y.int_domain.min, y.int_domain.max) == (0, 1)
    assert [one.presence.min_count for one in (x, rare, y)] == [1, 0, 1]


def test_table_without_target_is_refused(tmp_path):
    with pytest.raises(UsageError, match="a table needs --target, the column to predict"):
        look_at(table(tmp_path, x=lambda i: i), StarterOptions())


def test_rows_without_a_target_are_counted_and_left_to_the_ingest(tmp_path):
    data = table(tmp_path, x=lambda i: i % 7, y=lambda i: i / 2 if i % 4 else "")
    look = look_at(data, StarterOptions(targets=("y",)))
    assert look.gaps == {"y": 25}


@pytest.mark.parametrize(
    ("name", "of", "role"),
    [
        ("patient_id", lambda i: 7000 + i % 60, "looks like an id: 60 different values in 100"),
        ("store_id", lambda i: i % 5, "category"),
        ("pidnum", lambda i: 10_000 + 9_973 * i, "looks like an id"),  # sparse, but an id by name
        ("x1", lambda i: 62_000 + 2 * i + (i * 7) % 2, "looks like an id"),  # dense
        ("seqn", lambda i: 62_000 + 7 * i, "looks like an id"),
        ("people", lambda i: 900 * i + i * i * 7, "number"),  # spread
        ("age", lambda i: i * 7 % 40, "number"),
        ("patients", lambda i: i * 7 % 40, "number"),  # a count of patients
    ],
)
def test_whole_numbers_are_ids_codes_or_quantities(tmp_path, name, of, role):
    found = roles(tmp_path, y=lambda i: i % 2, **{name: of})
    assert (name in found.numbers, name in found.categories) == (
        role == "number",
        role == "category",
    )
    assert found.left_out.get(name, role).startswith(role)


def test_rows_that_belong_together_are_told(tmp_path):
    columns = {"x": lambda i: i / 3, "y": lambda i: i * 7 % 11 % 2, "patient": lambda i: i * 7 % 40}
    look = look_at(table(tmp_path, **columns), StarterOptions(targets=("y",)))
    assert look.roles.left_out == {"patient": "looks like an id: 40 different values in 100 rows"}
    [leak] = [leak for leak in look.leaks if leak.column == "patient"]
    assert (leak.remedy, "40 values in 100 rows" in leak.text) == ("group", True)


@pytest.mark.parametrize(
    ("of", "tokens"),
    [
        (lambda i: i % 50 if i % 9 else ".", "'.' means"),
        (lambda i: i / 3 if i % 9 else "-" if i % 2 else "unknown", "'-' or 'unknown' means"),
    ],
)
def test_texts_for_missing_numbers_are_told_with_the_option(tmp_path, of, tokens):
    data = table(tmp_path, x=lambda i: i % 7, y=lambda i: i % 2, age=of)
    with pytest.raises(DataError, match=f"a run would stop here, too; if {tokens}") as caught:
        look_at(data, StarterOptions(targets=("y",)))
    option = str(caught.value).partition("null_tokens=")[2].rstrip("'")
    options = StarterOptions(targets=("y",), source={"null_tokens": json.loads(option)})
    assert look_at(data, options).roles.numbers == ["x", "age"]


def test_time_divides_the_rows_where_a_third_is_left(tmp_path):
    def divided(day):
        data = table(tmp_path, day=day, x=lambda i: i / 3, y=lambda i: i % 2)
        return look_at(data, StarterOptions(targets=("y",), time="day"))

    look = divided(lambda i: f"2024-{1 + i % 9:02d}-01")
    assert look.split_at == "2024-07-01"
    assert "day" in look.roles.left_out
    with pytest.raises(UsageError, match=r"time 'day': .*2024-12-31"):
        divided(lambda i: f"{1 + i % 9}.1.2024")  # such texts do not sort by time
