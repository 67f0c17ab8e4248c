"""Helpers that read sources to their end, and that check errors."""

import os

import pytest

from penstock.components.errors import DataError
from penstock.components.sources.open import open_source


def data_error(call):
    """The message of the DataError that a call raises, which must be one line."""
    with pytest.raises(DataError) as caught:
        call()
    assert "\n" not in str(caught.value)
    return str(caught.value)


def refusal(path, options):
    """The message of an error on opening a file or a folder, without the folder's own path."""
    folder = path if os.path.isdir(path) else os.path.dirname(path)
    return data_error(lambda: open_source(path, options)).replace(f"{folder}/", "")


def read_all(source, parts=1):
    """The rows as dicts, read in `parts` parts, and the text of each rejected row."""
    runs = [source.part(run) for run in source.cut(parts)]
    batches = [batch for part, run in runs for batch in part.read(run)]
    assert sum(batch.rows_read for batch in batches) == source.rows
    rows = [row for batch in batches for row in batch.table.to_pylist()]
    return rows, [str(row) for batch in batches for row in batch.rejected]


def rows_of(source, parts=1):
    """The rows as dicts, read in `parts` parts."""
    return read_all(source, parts)[0]
