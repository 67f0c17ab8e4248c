from importlib.resources import files

import pyarrow as pa
import pytest
from row_files import sequence_example

from penstock.components.errors import DataError
from penstock.components.example_gen.ingest import plan_input, write_inputs
from penstock.components.example_gen.options import IngestOptions, Split, SplitOptions
from penstock.components.sources.base import Column
from penstock.components.sources.open import open_source
from penstock.components.sources.tfrecords.source import TFRecord
from penstock.components.tfrecord.encoder import encode_examples
from penstock.components.tfrecord.feature_kind import FeatureKind
from penstock.components.tfrecord.manifest import read_manifest
from penstock.components.tfrecord.records import read_records
from penstock.components.tfrecord.sharding import ShardOptions

INT, BYTES = FeatureKind.INT, FeatureKind.BYTES
TFX_DATA = files("tfx") / "components/testdata/external"


def examples(ids):
    names = [None if i % 7 == 0 else f"row {i}".encode() for i in ids]
    tags = [list(range(i % 3)) for i in ids]
    batch = pa.record_batch([list(ids), names, tags], names=["id", "name", "tags"])
    return encode_examples(batch).to_pylist()


TEXT_ID = encode_examples(pa.record_batch([[b"x"]], names=["id"]))[0].as_py()


def read(source, parts=1):
    batches = [batch for run in source.cut(parts) for batch in source.read(run)]
    assert sum(batch.rows_read for batch in batches) == source.rows
    records = [r for b in batches if b.records is not None for r in b.records.to_pylist()]
    rows = [row for batch in batches for row in batch.table.to_pylist()]
    return rows, records, [str(row) for batch in batches for row in batch.rejected]


@pytest.mark.parametrize("name", ["a.tfrecord", "a.tfrecord.gz"])
@pytest.mark.parametrize("parts", [1, 3, 20])
def test_records_are_taken_over_byte_by_byte(tfrecord, name, parts):
    records = examples(range(1000))
    source = open_source(str(tfrecord(name, records)))
    assert source.columns == (
        Column("id", INT), Column("name", BYTES), Column("tags", INT, is_list=True),
    )  # fmt: skip
    rows, taken, rejected = read(source, parts)
    assert taken == records
    assert rows[7] == {"id": 7, "name": None, "tags": [0]}
    assert rows[8] == {"id": 8, "name": b"row 8", "tags": [0, 1]}
    assert rejected == []
    assert sum(1 for run in source.cut(8) if run) == 8


def test_features_can_be_chosen(tfrecord):
    path = str(tfrecord("a.tfrecord", examples(range(10))))
    rows, records, _ = read(open_source(path, TFRecord(keep_features=("name", "id"))))
    assert rows[1] == {"name": b"row 1", "id": 1}
    assert records == []
    with pytest.raises(DataError, match="no feature 'fare' in the sampled records; they have id,"):
        open_source(path, TFRecord(keep_features=("fare",)))


def test_what_is_no_example_or_of_another_type_is_named(tfrecord):
    good = examples(range(100))
    path = str(tfrecord("a.tfrecord", [*good, b"not an example", TEXT_ID]))
    source = open_source(path)
    offset = sum(len(r) + 16 for r in good)
    named = (
        f"{path}: row 101: record 100 at offset {offset}: its 14 bytes are no tf.train.Example or "
        "SequenceExample"
    )
    assert [str(row) for row in source.rejected_by_scan] == [named]
    _, records, rejected = read(source)
    assert len(records) == 100
    assert rejected == [
        named,
        f"{path}: row 102, column 'id': record 101 at offset {offset + 30}: is BYTES, expected INT",
    ]


def ingested(source, output, splits):
    options = IngestOptions(shards=ShardOptions(shards=4))
    return write_inputs([plan_input(source, splits, options)], output, options)


def test_real_trips_of_tfx_into_other_shards(tmp_path):
    source = open_source(str(TFX_DATA / "tfrecord"), TFRecord())
    assert source.rows == 15_000
    splits = SplitOptions((Split("train", 2), Split("eval", 1)), "payment_type")
    manifest = ingested(source, tmp_path / "out", splits)
    assert manifest.account.read == sum(manifest.account.written.values()) == 15_000
    before = sorted(r.payload for f in source.files for r in read_records(f))
    after = sorted(r.payload for f in (tmp_path / "out").glob("Split-*/*") for r in read_records(f))
    assert after == before
    assert read_manifest(tmp_path / "out").source_kind == "tfrecord"


def test_sequence_examples_keep_their_sequences(tmp_path):
    source = open_source(str(TFX_DATA / "tfrecord_sequence"), TFRecord())
    assert source.has_sequences
    manifest = ingested(source, tmp_path / "out", SplitOptions((Split("all"),)))
    assert manifest.account.written == {"all": 15_000}
    path = source.files[0]
    before = [record.payload for record in read_records(path)]
    after = [
        r.payload for f in sorted((tmp_path / "out").glob("Split-*/*")) for r in read_records(f)
    ]
    assert after == before
    with pytest.raises(DataError, match="holds SequenceExamples, whose features cannot be chosen"):
        open_source(path, TFRecord(keep_features=("fare",)))


@pytest.mark.parametrize("misfits", [0, 1])
def test_a_record_with_a_feature_name_that_is_not_utf8_is_rejected(tfrecord, misfits):
    records = examples(range(1, 101))
    records[70] = records[70].replace(b"tags", b"ta\xffs")
    if misfits:
        records[50] = TEXT_ID
    path = str(tfrecord("a.tfrecord", records))
    rows, _, rejected = read(open_source(path))
    assert len(rows) == 99 - misfits
    assert len(rejected) == 1 + misfits
    assert rejected[-1].startswith(f"{path}: row 71: record 70 at offset ")
    assert rejected[-1].endswith("is no Example that TensorFlow decodes; write it again")


def test_a_set_without_one_of_its_members_is_refused(tfrecord, tmp_path):
    tfrecord("a-00000-of-00002", examples(range(10)))
    with pytest.raises(DataError, match="of the 2 shards of 'a', a-00001-of-00002 is missing"):
        open_source(str(tmp_path), TFRecord())
    one = open_source(str(tmp_path / "a-00000-of-00002"), TFRecord())
    assert one.rows == 10


def test_two_sets_in_one_folder_are_refused(tfrecord, tmp_path):
    for index, count in ((0, 2), (1, 2), (0, 3), (1, 3), (2, 3)):
        tfrecord(f"a-{index:05d}-of-{count:05d}", examples(range(5)))
    with pytest.raises(DataError, match="'a' has shards -of-00002 and -of-00003; one set is left"):
        open_source(f"{tmp_path}/a-*", TFRecord())


def test_a_sequence_example_among_examples_is_rejected(tfrecord):
    for place in (0, 50):
        records = examples(range(100))
        records[place] = sequence_example({"id": [7]}, steps=[[1]])
        path = str(tfrecord("a.tfrecord", records))
        _, taken, rejected = read(open_source(path))
        assert len(taken) == 99
        [line] = rejected
        assert line.startswith(f"{path}: row {place + 1}: record {place} at offset ")
        assert line.endswith(": a SequenceExample among Examples")


def test_a_step_of_another_kind_than_most_of_its_list_is_rejected(tfrecord):
    lists = [[[step] for step in range(3)] for _ in range(100)]
    lists[40].append([b"x"])
    lists[99].append(None)  # an empty step fits any kind
    payloads = [sequence_example({"id": [at]}, steps=steps) for at, steps in enumerate(lists)]
    path = str(tfrecord("a.tfrecord", payloads))
    source = open_source(path)
    assert source.has_sequences
    _, kept, [line] = read(source, parts=3)
    assert kept == payloads[:40] + payloads[41:]
    assert line.startswith(f"{path}: row 41, column 'steps': record 40 at offset ")
    assert line.endswith(": has a step of BYTES, expected INT")
