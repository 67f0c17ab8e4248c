"""The node `ShardedExampleGen` in a real pipeline: LocalDagRunner, sqlite and TFX's own nodes."""

import os

import pytest
import tensorflow as tf
from shared_runs import run_stock
from tfx.components import CsvExampleGen
from tfx.proto import example_gen_pb2, range_config_pb2

from penstock.components.errors import UsageError
from penstock.components.example_gen.component import ShardedExampleGen
from penstock.components.example_gen.driver import input_fingerprint
from penstock.components.example_gen.options import IngestInput, IngestOptions
from penstock.components.sources.arrow import Arrow
from penstock.components.sources.avro import Avro
from penstock.components.sources.binary import Binary
from penstock.components.sources.images.options import Images
from penstock.components.sources.jsonl import JsonLines
from penstock.components.sources.options import Csv, Parquet, Table
from penstock.components.sources.orc import Orc
from penstock.components.sources.plain_text import Text
from penstock.components.sources.tfrecords.source import TFRecord
from penstock.components.tfrecord.manifest import read_manifest
from penstock.components.tfrecord.sharding import ShardOptions

TWO_SHARDS = IngestOptions(shards=ShardOptions(shards=2))


def split_records(uri, split):
    files = tf.io.gfile.glob(f"{uri}/Split-{split}/*")
    kind = "GZIP" if files[0].endswith(".gz") else ""
    records = (r.numpy() for r in tf.data.TFRecordDataset(files, compression_type=kind))
    # TFX's own nodes write a row's features in no fixed order.
    rows = (tf.train.Example.FromString(record) for record in records)
    return sorted(row.SerializeToString(deterministic=True) for row in rows)


def ids(uri, split, name="id"):
    rows = (tf.train.Example.FromString(r) for r in split_records(uri, split))
    return sorted(row.features.feature[name].int64_list.value[0] for row in rows)


def by_node(artifacts):
    return {artifact.uri.split("/")[-3]: artifact for artifact in artifacts}


@pytest.fixture
def write(tmp_path):
    (tmp_path / "data").mkdir()

    def write_csv(name, first, last):
        path = tmp_path / "data" / name
        path.parent.mkdir(exist_ok=True)
        path.write_text("id\n" + "".join(f"{i}\n" for i in range(first, last)))

    return write_csv


@pytest.mark.slow
@pytest.mark.parametrize(
    ("feature", "rows"), [(None, {"train": 640, "eval": 360}), ("id", {"train": 679, "eval": 321})]
)
def test_rows_and_splits_are_those_of_csv_example_gen(tmp_path, feature, rows):
    (tmp_path / "data").mkdir()
    lines = [f"{i},{i / 8},name {i % 7}" for i in range(1000)]
    (tmp_path / "data" / "a.csv").write_text("id,fare,name\n" + "\n".join(lines) + "\n")
    splits = [{"name": "train", "hash_buckets": 2}, {"name": "eval", "hash_buckets": 1}]
    config = example_gen_pb2.SplitConfig(splits=splits, partition_feature_name=feature)
    output = example_gen_pb2.Output(split_config=config)
    artifacts = by_node(
        run_stock(
            tmp_path,
            CsvExampleGen(input_base=str(tmp_path / "data"), output_config=output),
            ShardedExampleGen(str(tmp_path / "data"), output_config=output, ingest=TWO_SHARDS),
        )
    )
    theirs, ours = artifacts["CsvExampleGen"].uri, artifacts["ShardedExampleGen"].uri
    assert read_manifest(ours).account.written == rows
    for split in ("train", "eval"):
        assert split_records(ours, split) == split_records(theirs, split)


def test_patterns_spans_and_versions(tmp_path, write):
    for span, version in ((1, 1), (2, 1), (2, 2)):
        for split in ("train", "eval"):
            first = span * 1000 + version * 100 + (split == "eval") * 10
            write(f"span{span}-v{version}-{split}.csv", first, first + 5)
    inputs = example_gen_pb2.Input(
        splits=[
            {"name": "train", "pattern": "span{SPAN}-v{VERSION}-train.csv"},
            {"name": "eval", "pattern": "span{SPAN}-v{VERSION}-eval.csv"},
        ]
    )
    data = str(tmp_path / "data")
    latest = ShardedExampleGen(data, input_config=inputs, ingest=TWO_SHARDS)
    first = ShardedExampleGen(
        data,
        input_config=inputs,
        ingest=TWO_SHARDS,
        range_config=range_config_pb2.RangeConfig(
            static_range={"start_span_number": 1, "end_span_number": 1}
        ),
    ).with_id("First")
    artifacts = by_node(run_stock(tmp_path, latest, first))
    newest = artifacts["ShardedExampleGen"]
    assert ids(newest.uri, "train") == [2200, 2201, 2202, 2203, 2204]
    assert ids(newest.uri, "eval") == [2210, 2211, 2212, 2213, 2214]
    assert ids(artifacts["First"].uri, "train") == [1100, 1101, 1102, 1103, 1104]
    assert newest.custom_properties["span"].int_value == 2
    assert newest.custom_properties["version"].int_value == 2
    assert newest.properties["split_names"].string_value == '["train", "eval"]'


def test_a_byte_that_keeps_size_and_time_is_seen(tmp_path, write):
    def node():
        return ShardedExampleGen(str(tmp_path / "data"), ingest=TWO_SHARDS)

    write("a.csv", 100, 110)
    file = tmp_path / "data" / "a.csv"
    assert len(run_stock(tmp_path, node())) == 1
    assert len(run_stock(tmp_path, node())) == 1  # served from the cache
    stat = file.stat()
    file.write_text(file.read_text().replace("105", "905"))
    os.utime(file, ns=(stat.st_atime_ns, stat.st_mtime_ns))
    assert len(run_stock(tmp_path, node())) == 2


def test_files_are_hashed_for_the_cache_key_and_not_scanned(tmp_path, monkeypatch):
    (tmp_path / "a.csv").write_text("id\n1\n")
    monkeypatch.setattr("penstock.components.example_gen.driver.open_source", None)
    tables = (Table(), Csv(), Parquet(), JsonLines(), Avro(), Arrow(), Orc())
    others = (TFRecord(), Images(), Text(), Binary())
    keys = {
        input_fingerprint([IngestInput(str(tmp_path / "a.csv"), source)])
        for source in (*tables, *others)
    }
    assert len(keys) == 1


def test_the_key_of_images_depends_on_contents_labels_and_refused_files(tmp_path):
    photos, labels = tmp_path / "photos", tmp_path / "labels.csv"
    (photos / "cat").mkdir(parents=True)
    (photos / "cat" / "1.jpg").write_bytes(b"x")
    labels.write_text("file,label\n1.jpg,2\n")

    def key():
        source = Images(labels_file=str(labels))
        return input_fingerprint([IngestInput(str(photos), source)])

    keys = [key(), key()]
    assert keys[0] == keys[1]
    (photos / "README.md").write_text("not data")
    assert key() == keys[0]
    for change in (
        lambda: (photos / "cat" / "1.jpg").write_bytes(b"y"),
        lambda: labels.write_text("file,label\n1.jpg,3\n"),
        lambda: (photos / "cat" / "2.jpg").symlink_to("nowhere"),
        lambda: (photos / "cat").rename(photos / "dog"),
    ):
        change()
        keys.append(key())
    assert len(set(keys)) == 5


def test_a_changed_option_and_a_changed_schema_run_again(tmp_path, write):
    schema = tmp_path / "schema.pbtxt"
    schema.write_text('feature { name: "id" type: INT presence { min_fraction: 1.0 } }')

    def node(**options):
        source = Table(schema_file=str(schema), **options)
        return ShardedExampleGen(str(tmp_path / "data"), source=source, ingest=TWO_SHARDS)

    write("a.csv", 100, 110)
    assert len(run_stock(tmp_path, node())) == 1
    assert len(run_stock(tmp_path, node(allow_empty=True))) == 2
    schema.write_text('feature { name: "id" type: FLOAT presence { min_fraction: 1.0 } }')
    artifacts = run_stock(tmp_path, node(allow_empty=True))
    assert len(artifacts) == 3
    assert read_manifest(artifacts[-1].uri).columns[0].kind == "FLOAT"


def test_bad_data_stops_the_run_and_leaves_no_shards(tmp_path):
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "a.csv").write_text("id,name\n1,a\n2\n")
    with pytest.raises(Exception, match=r"a\.csv: line 3 \(row 2\)"):
        run_stock(tmp_path, ShardedExampleGen(str(tmp_path / "data"), ingest=TWO_SHARDS))
    assert list((tmp_path / "pipeline").rglob("data_tfrecord*")) == []


def test_two_inputs_cannot_be_divided_into_other_splits(tmp_path, write):
    write("a.csv", 1, 9)
    inputs = example_gen_pb2.Input(
        splits=[{"name": "a", "pattern": "a.csv"}, {"name": "b", "pattern": "a.csv"}]
    )
    output = example_gen_pb2.Output(
        split_config=example_gen_pb2.SplitConfig(splits=[{"name": "train", "hash_buckets": 1}])
    )
    node = ShardedExampleGen(str(tmp_path / "data"), input_config=inputs, output_config=output)
    with pytest.raises(UsageError, match=r"input_config and output_config: .* more than one split"):
        run_stock(tmp_path, node)


@pytest.mark.parametrize(
    ("base", "pattern", "options"),
    [
        ("https://host/a.csv?X-Amz-Signature=pw-3f9c", "*", {}),
        ("https://host", "a.csv?X-Amz-Signature=pw-3f9c", {}),
        ("s3://bucket", "*", {"schema_file": "https://me:pw-3f9c@host/schema.pbtxt"}),
        ("postgresql://me:pw-3f9c@host/db", "*", {}),
    ],
)
def test_an_address_with_a_secret_never_becomes_a_node(base, pattern, options):
    inputs = example_gen_pb2.Input(splits=[{"name": "train", "pattern": pattern}])
    with pytest.raises(UsageError, match="holds a") as caught:
        ShardedExampleGen(base, input_config=inputs, source=Table(**options))
    assert "3f9c" not in str(caught.value)
