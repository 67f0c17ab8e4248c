"""Samples from a folder of Examples."""

import json

import pyarrow as pa

from penstock.components.batches import shards
from penstock.components.sources.tfrecords import examples
from penstock.components.tfrecord.manifest import MANIFEST_NAME


def test_sample_of_a_split_decodes_no_more_rows_than_it_returns(taxi_rows, monkeypatch):
    tasks = shards.shard_tasks(str(taxi_rows), "train")
    rows = [next(shards.read_batches(task)).slice(0, 5) for task in tasks]
    monkeypatch.setattr(shards, "_SAMPLE_ROWS", 15)
    decoded = []
    require = examples.require_examples
    monkeypatch.setattr(
        examples, "require_examples", lambda p, *where: decoded.append(len(p)) or require(p, *where)
    )
    sample = shards.sample_split(str(taxi_rows), "train")
    assert decoded == [5, 5, 5]
    fares = pa.concat_arrays([batch.column("fare").flatten() for batch in rows])
    assert sample["fare"].to_pylist() == fares.to_pylist()


def test_sample_of_a_split_without_shards_has_no_rows(taxi_rows, tmp_path):
    content = json.loads((taxi_rows / MANIFEST_NAME).read_text())
    content["splits"] = {"train": []}
    content["account"]["written"] = {"train": 0}
    content["account"]["read"] = content["account"]["quarantined"] = 0
    (tmp_path / MANIFEST_NAME).write_text(json.dumps(content))
    sample = shards.sample_split(str(tmp_path), "train")
    assert (sample.num_rows, sample.column_names) == (0, [])
