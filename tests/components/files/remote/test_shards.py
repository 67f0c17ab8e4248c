"""Shards on moto's S3 server, compared with the manifest in the folder above them."""

import pytest
from reading import data_error

from penstock.components.example_gen.ingest import ingest
from penstock.components.example_gen.options import IngestInput, IngestOptions, Split, SplitOptions
from penstock.components.sources.open import open_source
from penstock.components.sources.tfrecords.source import TFRecord
from penstock.components.tfrecord.sharding import ShardOptions

pytestmark = pytest.mark.slow

FIRST, SECOND = (f"x/Split-train/data_tfrecord-0000{i}-of-00002" for i in range(2))


@pytest.fixture
def uploaded(s3, tmp_path):
    """A client of the S3 server, which has two shards of 12 and 8 rows and their manifest."""
    (tmp_path / "a.csv").write_text("id\n" + "".join(f"{i}\n" for i in range(20)))
    options = IngestOptions(shards=ShardOptions(shards=2))
    job = IngestInput(str(tmp_path / "a.csv"), splits=SplitOptions((Split("train"),)))
    ingest([job], tmp_path / "x", options)
    for file in (path for path in (tmp_path / "x").rglob("*") if path.is_file()):
        key = str(file.relative_to(tmp_path))
        s3.put_object(Bucket="bucket", Key=key, Body=file.read_bytes())
    return s3


def opened(pattern):
    return open_source(f"s3://bucket/{pattern}", TFRecord())


def refused(pattern):
    return data_error(lambda: opened(pattern))


@pytest.mark.parametrize("pattern", ["x/Split-train", "x/Split-train/", "x/Split-*/*"])
def test_the_manifest_is_heeded(uploaded, pattern):
    assert opened(pattern).rows == 20
    other = uploaded.get_object(Bucket="bucket", Key=FIRST)["Body"].read()
    mine = uploaded.get_object(Bucket="bucket", Key=SECOND)["Body"].read()
    # The first shard, whose own checksums are right, replaces the second.
    uploaded.put_object(Bucket="bucket", Key=SECOND, Body=other)
    text = f"s3://bucket/{SECOND}: sha256 "
    assert refused(pattern).startswith(text)
    assert refused(pattern).endswith("...; the content was altered, write it again")
    assert opened(FIRST).rows == 12
    assert refused(SECOND).startswith(text)
    uploaded.delete_object(Bucket="bucket", Key=SECOND)
    assert refused(pattern) == (
        f"s3://bucket/{SECOND}: shard is missing; the manifest lists it with 8 rows"
    )
    uploaded.put_object(Bucket="bucket", Key=SECOND, Body=mine)
    uploaded.put_object(Bucket="bucket", Key=f"{SECOND}-copy", Body=mine)
    assert refused(pattern) == (
        f"s3://bucket/{SECOND}-copy: not listed in the manifest above it; remove it"
    )


def test_without_a_manifest_the_records_checksums_are_all_there_is(uploaded):
    uploaded.delete_object(Bucket="bucket", Key="x/manifest.json")
    uploaded.delete_object(Bucket="bucket", Key=SECOND)
    assert opened("x/Split-train").rows == 12
    uploaded.put_object(Bucket="bucket", Key="x/manifest.json", Body=b"{")
    assert refused("x/Split-train").startswith(
        "s3://bucket/x/manifest.json: not a Penstock manifest (JSONDecodeError("
    )
