import pytest

from penstock.components.errors import UsageError
from penstock.components.gates.curated_schema import CuratedSchema


def test_curated_schema_edited_file_changes_the_cache_key(tmp_path):
    file = tmp_path / "schema.pbtxt"
    file.write_text('feature { name: "a" type: INT }\n')
    before = CuratedSchema(str(file)).exec_properties
    file.write_text('feature { name: "b" type: INT }\n')
    after = CuratedSchema(str(file)).exec_properties
    assert before["schema_file"] == after["schema_file"] == str(file)
    assert before["schema_sha256"] != after["schema_sha256"]


def test_curated_schema_missing_file_is_named(tmp_path):
    with pytest.raises(UsageError, match=r"schema: cannot read .*/none.pbtxt: No such file"):
        CuratedSchema(str(tmp_path / "none.pbtxt"))
