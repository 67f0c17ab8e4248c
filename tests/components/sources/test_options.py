import pytest

from penstock.components.errors import UsageError
from penstock.components.sources.options import Table


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"kind": "json"}, "`kind` must be one of csv, parquet, arrow, orc, jsonl, avro"),
        ({"non_finite": "drop"}, "`non_finite` must be one of reject, null, keep"),
        ({"extra_columns": "keep"}, "`extra_columns` must be one of reject, drop"),
        ({"delimiter": ""}, "`delimiter` must be one ASCII character"),
        ({"delimiter": "||"}, "`delimiter` must be one ASCII character"),
        ({"sample_rows": 0}, "`sample_rows` must be at least 1, got 0"),
        ({"max_row_bytes": 2**31}, "`max_row_bytes` must be within 1..1073741824"),
        ({"null_tokens": "NA"}, "`null_tokens` must be a list of strings, got 'NA'"),
        ({"column_names": [1]}, "`column_names` must be a list of strings, got [1]"),
        ({"column_names": ["a", "a"]}, "`column_names` must be different and not blank"),
        ({"allow_empty": "no"}, "`allow_empty` must be true or false, got 'no'"),
    ],
)
def test_bad_values_are_named(values, message):
    with pytest.raises(UsageError) as error:
        Table(**values)
    assert str(error.value).startswith(message)
