import json

import pyarrow as pa
import pytest

from penstock.components.errors import DataError, UsageError
from penstock.components.example_gen.ingest import ingest
from penstock.components.example_gen.options import IngestInput, IngestOptions, Split, SplitOptions
from penstock.components.packing.options import PackOptions
from penstock.components.packing.pack import pack
from penstock.components.packing.spool import ingest_packed
from penstock.components.tfrecord.manifest import read_manifest
from penstock.components.tfrecord.sharding import ShardOptions
from penstock.components.tfrecord.writer import ShardWriter, frame_records


def write_json(path, rows):
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def row(i):
    """Numbers, texts and lists, of which some are missing, and a column without any value."""
    return {
        "id": i,
        "x": None if i % 5 == 0 else i / 4,
        "name": f"name {i % 7}" if i % 3 else None,
        "tags": [f"t{j}" for j in range(i % 4)],
        "sizes": list(range(i % 3)),
        "none": None,
    }


def packed(path, output, packing, splits, options):
    return ingest_packed(
        [IngestInput(str(path), splits=splits)],
        output,
        options,
        packing=packing,
    )


def both(path, tmp_path, packing, splits, **options):
    """What an ingest whose shards are then packed gives, and what is packed from the source."""
    options = IngestOptions(**options)
    jobs = [IngestInput(str(path), splits=splits)]
    rows = ingest(jobs, tmp_path / "rows", options)
    two = pack(str(tmp_path / "rows"), tmp_path / "two", packing)
    return rows, two, packed(path, tmp_path / "one", packing, splits, options)


def test_the_bytes_are_those_of_an_ingest_that_is_packed(tmp_path):
    path = write_json(tmp_path / "a.jsonl", map(row, range(1000)))
    packing = PackOptions(ids=("name",), block_rows=64)
    rows, two, one = both(path, tmp_path, packing, SplitOptions())
    assert one.splits == two.splits
    assert [c["storage"] for c in one.packed["columns"]] == [
        "int64", "int32", "list", "list", "float32",
    ]  # fmt: skip
    assert one.packed == two.packed
    assert one.packed["empty_columns"] == ["none"]
    for shard in one.shards:
        assert (tmp_path / "one" / shard.file).read_bytes() == (
            tmp_path / "two" / shard.file
        ).read_bytes()
    names = [(tmp_path / way / "vocabulary/name.txt").read_text() for way in ("one", "two")]
    assert names[0] == names[1]
    assert one.account == rows.account
    assert (one.source_kind, one.source_fingerprint) == ("jsonl", rows.source_fingerprint)
    assert read_manifest(tmp_path / "one") == one
    assert sorted(p.name for p in tmp_path.iterdir()) == ["a.jsonl", "one", "rows", "two"]


def test_rejected_rows_are_in_the_account_and_in_the_quarantine(tmp_path):
    path = tmp_path / "a.csv"
    lines = [f"{i},{i / 4}{',more' if i == 7 else ''}" for i in range(200)]
    path.write_text("id,x\n" + "\n".join(lines) + "\n")
    splits = SplitOptions((Split("all"),))
    rows, two, one = both(path, tmp_path, PackOptions(), splits, on_bad_row="quarantine")
    assert one.account == rows.account
    assert one.account.quarantined == 1
    assert one.splits == two.splits
    (kept,) = (tmp_path / "one" / one.quarantine).iterdir()
    assert kept.read_bytes() == (tmp_path / "rows/quarantine" / kept.name).read_bytes()
    assert json.loads(kept.read_text())["raw"] == "7,1.75,more"


def test_nothing_is_left_where_a_row_does_not_fit_or_the_rows_are_examples(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("id,x\n1,2\n3\n")
    with pytest.raises(DataError, match=r"a.csv: line 3 \(row 2\): 1 field, expected 2"):
        packed(path, tmp_path / "no", PackOptions(), SplitOptions(), IngestOptions())
    assert list(tmp_path.iterdir()) == [path]
    record = pa.array([b"\x0a\x09\x0a\x07\x0a\x01x\x12\x02\x1a\x00"])
    with ShardWriter(tmp_path, "Split-all/a.tfrecord") as writer:
        writer.write(frame_records(record))
        writer.finish()
    examples = tmp_path / "Split-all/a.tfrecord"
    with pytest.raises(UsageError) as error:
        packed(examples, tmp_path / "no", PackOptions(), SplitOptions(), IngestOptions())
    assert str(error.value) == (
        "TFRecords hold Examples already; pack their folder by penstock pack"
    )


@pytest.mark.parametrize("rows", [3, 4])
def test_more_shards_than_rows_of_a_split_give_one_a_row(tmp_path, rows):
    path = write_json(tmp_path / "a.jsonl", map(row, range(rows)))
    few = ShardOptions(shards=3)
    splits = SplitOptions((Split("train", 1000), Split("eval", 1)))
    _, two, one = both(path, tmp_path, PackOptions(shards=few), splits, shards=few)
    assert two.splits == one.splits
    assert [len(shards) for shards in one.splits.values()] == [3, 1]
    assert one.account.written == {"train": rows, "eval": 0}
    assert "eval: 1 of 3 asked for, as there are no more rows" in one.plan
