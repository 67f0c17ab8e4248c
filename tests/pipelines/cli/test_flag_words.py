"""Options in the words of the shell."""

import pytest

from penstock.pipelines.cli.flag_words import in_flags


@pytest.mark.parametrize(
    ("kind", "text", "expected"),
    [
        (None, "a.csv: is empty; set allow_empty", "a.csv: is empty; set --allow-empty"),
        (None, "did you mean delimiter=';'?", "did you mean --delimiter ';'?"),
        (None, r"did you mean delimiter='\t'?", "did you mean --delimiter tab?"),
        (None, "read it with kind='binary'", "read it with --kind binary"),
        ("jsonl", "a: nested='json' keeps it", "a: --nested json keeps it"),
        (None, "a.jsonl: set nested='json' or", "a.jsonl: set --kind jsonl --nested json or"),
        (None, "if none, set column_names", "if none, set --column-name"),
        ("images", "right column with file_column", "right column with --file-column"),
        (None, "set extra_columns='drop'", "set --extra-columns drop"),
        # What is the user's own stays.
        (None, "/in/allow_empty/a.csv: bad", "/in/allow_empty/a.csv: bad"),
        (None, "column 'allow_empty' is odd", "column 'allow_empty' is odd"),
        (None, "allow_empty.csv: bad", "allow_empty.csv: bad"),
        (None, "leave the column out of a schema", "leave the column out of a schema"),
    ],
)
def test_options_are_named_as_flags(kind, text, expected):
    assert in_flags(text, kind) == expected
