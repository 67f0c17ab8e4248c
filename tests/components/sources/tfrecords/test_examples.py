import subprocess
import sys

import pyarrow as pa
import pytest
from tfx_bsl.coders.example_coder import ExamplesToRecordBatchDecoder

from penstock.components.errors import DataError
from penstock.components.sources.tfrecords.decode import RowDecoder
from penstock.components.tfrecord.encoder import encode_examples

KINDS = {"id": "INT", "name": "BYTES", "size": "FLOAT"}
TYPES = {"id": pa.int64(), "name": pa.binary(), "size": pa.float32()}
FULL = {"id": [1, 300, -1], "name": [b"a", b"", b"c" * 200], "size": [0.5, 1, 2]}
GAPS = {"id": [1, None, 2], "name": [b"a", None, b""], "size": [None] * 3}
LISTS = {"id": [[1, 2], [3], []], "name": [b"a"] * 3, "size": [0.5] * 3}
WIDER = {**FULL, "more": [1, 2, 3]}


def encoded(columns):
    types = {**TYPES, "more": pa.int64()}
    arrays = [
        pa.array(values, pa.list_(types[name]) if isinstance(values[0], list) else types[name])
        for name, values in columns.items()
    ]
    return encode_examples(pa.RecordBatch.from_arrays(arrays, [*columns])).to_pylist()


def by_tfx_bsl(rows):
    batch = ExamplesToRecordBatchDecoder().DecodeBatch(rows)
    return pa.Table.from_batches([batch]).select(sorted(batch.schema.names))


@pytest.mark.parametrize("kinds", [KINDS, {}])
@pytest.mark.parametrize("first", [FULL, GAPS])
def test_batches_of_one_value_a_row_equal_those_of_tfx_bsl(kinds, first):
    decoder = RowDecoder(kinds)
    for columns in (first, FULL, GAPS, FULL):
        rows = encoded(columns)
        batch = decoder.decode(rows, "f")
        batch.validate(full=True)
        assert pa.Table.from_batches([batch]).equals(by_tfx_bsl(rows))


def test_rows_of_another_layout_between_plain_ones_are_decoded_whole():
    decoder = RowDecoder({})
    for columns in (FULL, LISTS, FULL, WIDER, FULL):
        rows = encoded(columns)
        found = decoder.decode(rows, "f")
        assert pa.Table.from_batches([found]).equals(by_tfx_bsl(rows))


def test_a_feature_of_two_kinds_is_named_after_plain_batches():
    decoder = RowDecoder({})
    decoder.decode(encoded(FULL), "f")
    decoder.decode(encoded(FULL), "f")
    texts = encode_examples(pa.RecordBatch.from_arrays([pa.array([b"x"])], ["id"])).to_pylist()
    with pytest.raises(DataError, match=r"rows 5.*id"):
        decoder.decode([*encoded(FULL), *texts], "rows 5 and on")


def test_reading_plain_rows_imports_no_tensorflow():
    code = (
        "import sys; from penstock.components.sources.tfrecords.decode import RowDecoder;"
        f"RowDecoder({KINDS!r}).decode({encoded(FULL)!r}, 'f');"
        "sys.exit('tensorflow' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
