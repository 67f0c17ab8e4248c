import itertools
import os
import pickle
import shutil
import subprocess
import sys

import grain.python as grain
import numpy as np
import pytest
from row_files import example, sequence_example

import penstock
from penstock.components.errors import DataError, UsageError
from penstock.components.readers.rows import Rows

LINES = [f"{i},{i / 2 if i % 3 else ''},name {i % 4}" for i in range(1000)]


@pytest.fixture(scope="module", params=["", "GZIP"])
def shards(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp("rows")
    (folder / "t.csv").write_text("\n".join(["id,x,name", *LINES]) + "\n")
    options = penstock.sources.IngestOptions(
        shards=penstock.sources.ShardOptions(shards=3), compression=request.param
    )
    splits = penstock.sources.SplitOptions((penstock.sources.Split("train", 1),))
    penstock.ingest(str(folder / "t.csv"), folder / "shards", options=options, splits=splits)
    return folder / "shards"


@pytest.fixture(scope="module")
def packed(shards):
    folder = shards.with_name("packed")
    options = penstock.nodes.PackOptions(block_rows=100, columns=("id", "x", "name"))
    penstock.pack(str(shards), folder, options)
    return folder


def expected(i):
    return {"id": i, "x": i / 2 if i % 3 else None, "name": f"name {i % 4}".encode()}


def test_every_row_by_number_and_in_order(shards):
    rows = Rows(shards)
    assert len(rows) == 1000
    assert sorted(rows, key=lambda row: row["id"]) == [expected(i) for i in range(1000)]
    assert [rows[i] for i in range(1000)] == list(rows)
    assert rows[-1] == rows[999]


def ids_of(batches):
    return [i for batch in batches for i in batch.column("id").to_pylist()]


@pytest.mark.parametrize("workers", [2, 7, 16])
def test_workers_share_the_rows_equally(shards, packed, workers):
    for folder in (shards, packed):
        rows = Rows(folder, columns=["id"])
        parts = [ids_of(rows.batches(worker=w, workers=workers)) for w in range(workers)]
        assert {len(part) for part in parts} <= {1000 // workers, 1000 // workers + 1}
        assert list(itertools.chain(*parts)) == ids_of(rows.batches())
    with pytest.raises(UsageError, match=r"worker must be within 0\.\.6, got 7"):
        rows.batches(worker=7, workers=7)


def test_batches_of_a_size_cross_shards_and_start_later(shards, packed):
    for folder in (shards, packed):
        rows = Rows(folder)
        batches = list(rows.batches(batch_size=300))
        assert [batch.num_rows for batch in batches] == [300, 300, 300, 100]
        assert ids_of(batches) == ids_of(rows.batches())
        assert list(rows.batches(batch_size=300, start=2)) == batches[2:]
        stored = list(rows.batches())
        assert list(rows.batches(start=1)) == stored[1:]


def test_shuffled_batches_are_those_of_the_training_input(shards, packed):
    import tensorflow as tf

    from penstock.training import Input, InputOptions

    options = InputOptions(batch_size=70, seed=5, shuffle_window_rows=256)
    spec = {"id": tf.io.FixedLenFeature([1], tf.int64)}
    inputs = {
        shards: Input.rows(str(shards), spec, options=options),
        packed: Input.packed(str(packed), options=options, columns=["id"]),
    }
    chosen = {"batch_size": 70, "shuffle": True, "seed": 5, "shuffle_window_rows": 256}
    for folder, data in inputs.items():
        expected = [batch["id"].numpy().ravel().tolist() for batch in data.train().take(40)]
        found = Rows(folder).batches(**chosen)
        assert [next(found).column("id").to_pylist() for _ in range(40)] == expected
        later = Rows(folder).batches(**chosen, start=33)
        assert next(later).column("id").to_pylist() == expected[33]


def test_shuffled_workers_give_each_row_once_in_a_pass(packed):
    rows = Rows(packed, columns=["id"])
    parts = [
        ids_of(itertools.islice(rows.batches(worker=w, workers=4, batch_size=50, shuffle=True), 5))
        for w in range(4)
    ]
    assert sorted(itertools.chain(*parts)) == list(range(1000))
    with pytest.raises(UsageError, match="shuffle needs a batch_size"):
        next(rows.batches(shuffle=True))


def test_packed_rows_are_the_same_with_missing_ones_filled(packed):
    rows = Rows(packed)
    filled = [{**expected(i), "x": expected(i)["x"] or 0.0} for i in range(1000)]
    assert sorted(rows, key=lambda row: row["id"]) == filled
    assert [rows[i] for i in (0, 150, 999)] == [list(rows)[i] for i in (0, 150, 999)]
    ids = [i for batch in rows.batches() for i in batch.column("id").to_pylist()]
    assert sorted(ids) == list(range(1000))


def test_grain_takes_it_as_a_source(packed):
    dataset = grain.MapDataset.source(Rows(packed, columns=["id", "x"])).shuffle(seed=1).batch(100)
    batches = list(dataset)
    assert len(batches) == 10
    ids = np.concatenate([batch["id"] for batch in batches])
    assert ids.tolist() != list(range(1000))
    assert sorted(ids.tolist()) == list(range(1000))


def test_it_goes_to_other_processes(shards):
    assert pickle.loads(pickle.dumps(Rows(shards)))[5] == Rows(shards)[5]


def test_without_tensorflow(shards):
    code = (
        "import sys; from penstock import Rows; r = Rows(sys.argv[1]); r[0]; next(r.batches());"
        "print({'tensorflow', 'tfx_bsl', 'tensorflow_metadata'} & {*sys.modules})"
    )
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", code, shards],
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == "set()\n"


def test_what_is_not_there(shards, tmp_path):
    with pytest.raises(UsageError, match="no split 'eval'; it has train"):
        Rows(shards, split="eval")
    with pytest.raises(UsageError, match="no column 'y'; it has id, x, name"):
        Rows(shards, columns=["id", "y"])
    with pytest.raises(IndexError, match="row 1000 of 1,000"):
        Rows(shards)[1000]
    with pytest.raises(DataError, match=r"no manifest\.json"):
        Rows(tmp_path)


@pytest.mark.parametrize("kind", ["shards", "packed"])
def test_a_shard_that_is_cut_while_it_is_read_is_named(shards, packed, tmp_path, kind):
    folder = shutil.copytree({"shards": shards, "packed": packed}[kind], tmp_path / "copy")
    rows = Rows(folder)
    if rows._path(0).suffix == ".gz":
        pytest.skip("is decompressed at once")
    batches = rows.batches(shuffle=True, batch_size=10, shuffle_window_rows=100)
    next(batches)
    for at in range(len(rows.shards)):
        os.truncate(rows._path(at), 300)
    with pytest.raises(DataError, match=r"Split-train/.*: was (cut|replaced) while it was read"):
        list(itertools.islice(batches, 200))


def test_a_sequence_example_among_examples_is_refused_by_row_and_by_batch(tfrecord, tmp_path):
    payloads = [example(x=[1]), *[sequence_example({"x": [1]}, s=[[2]])] * 2]
    splits = penstock.sources.SplitOptions((penstock.sources.Split("train", 1),))
    penstock.ingest(str(tfrecord("a.tfrecord", payloads)), tmp_path / "out", splits=splits)
    rows = Rows(tmp_path / "out")
    for read in (lambda: rows[1], lambda: next(rows.batches())):
        with pytest.raises(DataError, match=r"record 1: is a SequenceExample"):
            read()
