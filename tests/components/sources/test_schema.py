import pytest

from penstock.components.errors import DataError
from penstock.components.sources.schema import SchemaColumn, read_schema
from penstock.components.tfrecord.feature_kind import FeatureKind


@pytest.fixture
def write(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    def write_schema(text):
        (tmp_path / "schema.pbtxt").write_text(text)
        return "schema.pbtxt"

    return write_schema


def test_reads_names_kinds_lists_and_presence(write):
    path = write(
        """
        feature { name: "a" type: INT presence { min_fraction: 1.0 } }
        feature { name: "b" type: FLOAT value_count { min: 1 max: 1 } }
        feature { name: "c" type: BYTES shape { dim { size: 1 } } presence { min_count: 1 } }
        feature { name: "d" type: FLOAT shape { dim { size: 2 } dim { size: 3 } } }
        feature { name: "e" type: INT value_count { min: 0 max: 5 } }
        feature { name: "f" type: INT shape { } }
        """
    )
    assert read_schema(path) == (
        SchemaColumn("a", FeatureKind.INT, None, True),
        SchemaColumn("b", FeatureKind.FLOAT, False, False),
        SchemaColumn("c", FeatureKind.BYTES, False, True),
        SchemaColumn("d", FeatureKind.FLOAT, True, False),
        SchemaColumn("e", FeatureKind.INT, True, False),
        SchemaColumn("f", FeatureKind.INT, False, False),
    )


def test_a_feature_that_is_named_twice_is_refused(write):
    path = write('feature { name: "a" type: INT }\nfeature { name: "a" type: FLOAT }')
    with pytest.raises(DataError, match=r"schema\.pbtxt: names feature 'a' twice; remove one"):
        read_schema(path)


@pytest.mark.parametrize("stage", ["PLANNED", "ALPHA", "DEPRECATED", "DEBUG_ONLY", "DISABLED"])
def test_features_in_a_stage_without_data_are_left_out(write, stage):
    path = write(
        f'feature {{ name: "a" type: INT lifecycle_stage: {stage} }}'
        'feature { name: "b" type: INT deprecated: true }'
        'feature { name: "c" type: INT lifecycle_stage: BETA }'
    )
    assert read_schema(path) == (SchemaColumn("c", FeatureKind.INT, None, False),)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "schema.pbtxt: the schema has no feature; expected one for each column"),
        (
            'feature { name: "s" type: STRUCT }',
            "schema.pbtxt: feature 's' has type STRUCT; expected one of INT, FLOAT, BYTES",
        ),
        (
            'feature { name: "s" }',
            "schema.pbtxt: feature 's' has type TYPE_UNKNOWN; expected one of INT, FLOAT, BYTES",
        ),
    ],
)
def test_unfit_schemas_are_named(write, text, message):
    with pytest.raises(DataError) as error:
        read_schema(write(text))
    assert str(error.value) == message


def test_what_is_no_schema_is_named(write):
    with pytest.raises(DataError, match=r"^schema.pbtxt: not a TFMD schema.pbtxt \(1:"):
        read_schema(write("feature [ name ]"))
    with pytest.raises(DataError, match=r"^nowhere\.pbtxt: cannot read the schema .*No such file"):
        read_schema("nowhere.pbtxt")
