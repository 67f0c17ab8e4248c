"""Every consumer of Examples with every damage: each names the shard, and none continues."""

import shutil
from pathlib import Path

import pyarrow as pa
import pytest
import tensorflow as tf

from penstock.components.batches.shards import read_batches, shard_tasks
from penstock.components.doctor.inspect import inspect
from penstock.components.doctor.verify import verify
from penstock.components.errors import DataError
from penstock.components.example_gen.ingest import ingest
from penstock.components.example_gen.options import IngestInput, IngestOptions, Split, SplitOptions
from penstock.components.packing.options import PackOptions
from penstock.components.packing.pack import pack
from penstock.components.sources.open import open_source
from penstock.components.sources.tfrecords.source import TFRecord
from penstock.components.tfrecord.checked import check_folder
from penstock.components.tfrecord.records import read_records
from penstock.components.tfrecord.sharding import ShardOptions
from penstock.components.trainer.input.input import Input
from penstock.components.trainer.input.options import InputOptions

pytestmark = pytest.mark.slow

FIRST, SECOND = range(2)
NAMES = {
    "rows": "Split-train/data_tfrecord-0000{}-of-00002",
    "packed": "Split-train/data-0000{}-of-00002.arrow",
}
SPEC = {"id": tf.io.FixedLenFeature([1], tf.int64)}
OPTIONS = InputOptions(batch_size=4)


@pytest.fixture(scope="module")
def examples(tmp_path_factory):
    """A folder with the ids 100 to 139 in two shards of rows and in two shards of packed rows."""
    folder = tmp_path_factory.mktemp("damage")
    (folder / "a.csv").write_text("id\n" + "".join(f"{100 + i}\n" for i in range(40)))
    options = IngestOptions(shards=ShardOptions(shards=2))
    job = IngestInput(str(folder / "a.csv"), splits=SplitOptions((Split("train"),)))
    ingest([job], folder / "rows", options)
    packing = PackOptions(block_rows=8, shards=ShardOptions(shards=2))
    pack(str(folder / "rows"), folder / "packed", packing)
    return folder


def missing(shard):
    shard.unlink()


def cut_between_records(shard):
    if shard.suffix == ".arrow":
        shard.write_bytes(shard.read_bytes()[:-64])
        return
    last = list(read_records(shard))[-1]
    shard.write_bytes(shard.read_bytes()[: last.offset])


def cut_in_a_record(shard):
    shard.write_bytes(shard.read_bytes()[:-3])


def altered_with_right_checksums(shard):
    """Exchanges two records: the file's size, and their number and checksums, stay the same."""
    if shard.suffix == ".arrow":  # the ids of two rows are exchanged
        data = shard.read_bytes()
        first, second = (int(n).to_bytes(8, "little") for n in _ids(shard))
        moved = data.replace(first, b"!" * 8).replace(second, first).replace(b"!" * 8, second)
        shard.write_bytes(moved)
        return
    records = list(read_records(shard))
    data, second = shard.read_bytes(), records[1].offset
    end = records[2].offset if len(records) > 2 else len(data)
    shard.write_bytes(data[second:end] + data[:second] + data[end:])
    assert shard.stat().st_size == len(data)
    assert shard.read_bytes() != data


def _ids(shard):
    with pa.OSFile(str(shard)) as file:
        return pa.ipc.open_file(file).get_batch(0).column(0).to_pylist()[:2]


def flipped(shard):
    data = bytearray(shard.read_bytes())
    data[len(data) // 2] ^= 1
    shard.write_bytes(data)


def emptied(shard):
    shard.write_bytes(b"")


DAMAGES = (missing, cut_between_records, cut_in_a_record, altered_with_right_checksums, flipped,
           emptied)  # fmt: skip


OF_ROWS = {
    "a node": lambda folder: check_folder(str(folder)),
    "ingest": lambda folder: open_source(f"{folder}/Split-train", TFRecord()),
    "ingest of a pattern": lambda folder: open_source(f"{folder}/Split-*/*", TFRecord()),
    "ingest of a shard": lambda folder: open_source(
        f"{folder}/{NAMES['rows'].format(SECOND)}", TFRecord()
    ),
    "pack": lambda folder: pack(str(folder), folder / "packed", PackOptions()),
    "training": lambda folder: Input.rows(str(folder), SPEC, options=OPTIONS).train(),
    "training of a pattern": lambda folder: Input.rows(
        [f"{folder}/Split-train/*"], SPEC, options=OPTIONS
    ).train(),
    "evaluation": lambda folder: Input.rows(str(folder), SPEC, options=OPTIONS).eval(split="train"),
    "statistics": lambda folder: [*read_batches(shard_tasks(str(folder), "train")[SECOND])],
    "inspect": lambda folder: inspect(str(folder)).raise_faults(),
    "verify": lambda folder: verify(str(folder)).raise_faults(),
}
OF_PACKED = {
    "training": lambda folder: Input.packed(str(folder), options=OPTIONS).train(),
    "evaluation": lambda folder: Input.packed(str(folder), options=OPTIONS).eval(split="train"),
    "verify": lambda folder: verify(str(folder)).raise_faults(),
}
CONSUMERS = [("rows", name) for name in OF_ROWS] + [("packed", name) for name in OF_PACKED]


@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize(("kind", "name"), CONSUMERS)
def test_it_names_the_shard(examples, tmp_path, damage, kind, name):
    consume = (OF_ROWS if kind == "rows" else OF_PACKED)[name]
    shutil.copytree(examples / kind, tmp_path / "x")
    shard = tmp_path / "x" / NAMES[kind].format(SECOND)
    damage(shard)
    with pytest.raises(DataError, match=shard.name) as caught:
        consume(tmp_path / "x")
    assert str(caught.value).startswith(str(shard))
    assert not Path(tmp_path, "x/packed").exists()


@pytest.mark.parametrize(("kind", "name"), CONSUMERS)
def test_a_shard_too_many_is_named_where_it_would_be_read(examples, tmp_path, kind, name):
    consume = (OF_ROWS if kind == "rows" else OF_PACKED)[name]
    shutil.copytree(examples / kind, tmp_path / "x")
    more = tmp_path / "x" / "Split-train/data_tfrecord-00000-of-00003"
    shutil.copy(tmp_path / "x" / NAMES[kind].format(FIRST), more)
    # Readers that open only the files in the manifest are not affected by the additional shard.
    if name not in ("a node", "ingest", "ingest of a pattern", "inspect", "verify"):
        consume(tmp_path / "x")
    else:
        with pytest.raises(DataError, match=f"{more}: not listed in the manifest"):
            consume(tmp_path / "x")
