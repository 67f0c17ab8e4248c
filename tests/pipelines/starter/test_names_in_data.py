"""Names in data are literals in the files of `penstock init`, whatever they contain."""

import ast
import json
import shlex

import pytest
from google.protobuf import text_format
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tensorflow_metadata.proto.v0 import schema_pb2

from penstock.components.tfrecord.feature_kind import FeatureKind
from penstock.pipelines.blocks.target import Target
from penstock.pipelines.starter.columns import ColumnLook
from penstock.pipelines.starter.look import ImagesLook, TableLook
from penstock.pipelines.starter.options import StarterOptions
from penstock.pipelines.starter.roles import Roles
from penstock.pipelines.starter.write import render_starter

CODE = [
    '"""\nimport os\nos.abort()\n"""',
    "x\nimport os; os.abort()",
    "C:\\new\\x",
    "'; rm -rf ~; '",
    "{{ look }}{% raw %}",
    "```\n<script>alert(1)</script>",
    "\u2028\u202e\x1b[31m\x00",
    "# a\r\nb",
    "\\",
]
NAMES = st.lists(
    st.one_of(st.text(st.characters(exclude_categories=["Cs"]), min_size=1), st.sampled_from(CODE)),
    min_size=8,
    max_size=8,
    unique=True,
)
PLAIN = ["amount", "member", "since", "plan", "id", "left", "no", "yes"]


def table(names):
    """Six columns, the last of them a target of two classes."""
    number, boolean, date, category, left_out, target, low, high = names

    def column(name, value):
        counts = ((value, 5), (high, 2))
        return ColumnLook(name, FeatureKind.BYTES, False, 9, 2 * (name == target), counts)

    roles = Roles(
        targets=[Target(target, "binary", (low, high), label="label_xf")],
        numbers=[number],
        booleans=[boolean],
        dates={date: "ymd"},
        categories={category: 7},
        left_out={left_out: f"{low!r} in all rows"},
    )
    columns = tuple(column(name, low) for name in names[:6])
    return TableLook("csv", 9, columns, roles), f"/data/{number}.csv"


def images(names):
    file, column, *classes = names
    return ImagesLook(9, f"/data/{file}", column, dict.fromkeys(classes, 3), 8, 1, True), f"/{file}"


def structure(code):
    """The syntax tree, without the values of its literals."""
    tree = ast.parse(code)
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant):
            node.value = type(node.value).__name__
    return ast.dump(tree)


def written(make, names):
    look, data = make(names)
    group = names[4] if make is table else None
    return render_starter("mine", "mine", look, data, StarterOptions(group=group))


@pytest.mark.parametrize("make", [table, images])
@given(names=NAMES)
@example(names=CODE[:8])
@settings(max_examples=25, deadline=None)
def test_package_of_any_names_has_the_syntax_tree_of_plain_names(make, names):
    expected, found = written(make, PLAIN), written(make, names)
    assert found.keys() == expected.keys()
    for file, text in found.items():
        text.encode()
        if file.endswith(".py"):
            assert structure(text) == structure(expected[file]), file
        elif file != "README.md" and not file.endswith("schema.pbtxt"):
            assert text == expected[file]


@given(names=NAMES)
@example(names=CODE[:8])
@settings(max_examples=25, deadline=None)
def test_literals_schema_and_readme_hold_the_names(names):
    files, plain = written(table, names), written(table, PLAIN)["README.md"]
    values = {
        node.targets[0].id: ast.literal_eval(node.value)
        for node in ast.parse(files["mine/features.py"]).body
        if isinstance(node, ast.Assign) and node.targets[0].id != "TARGETS"
    }
    number, boolean, date, category, left_out, *_ = names
    assert values == {
        "NUMBERS": (number,),
        "BOOLEANS": (boolean,),
        "DATES": {date: "ymd"},
        "CATEGORIES": {category: 7},
        "LEFT_OUT": {left_out: f"{names[6]!r} in all rows"},
    }
    schema = text_format.Parse(files["mine/schema.pbtxt"], schema_pb2.Schema())
    assert [feature.name for feature in schema.feature] == names[:6]
    assert list(schema.feature[5].string_domain.value) == names[6:]
    lines = files["README.md"].split("\n")
    assert len(lines) == len(plain.split("\n"))
    *_, option, body = shlex.split(next(line for line in lines if line.startswith("curl")))
    assert option == "-d"
    assert list(json.loads(body)) == ["signature_name", "inputs"]
    summary = lines[2]
    assert summary.isprintable()
    assert not {"<", "`", "*"} & {c for i, c in enumerate(summary) if summary[i - 1] != "\\"}
