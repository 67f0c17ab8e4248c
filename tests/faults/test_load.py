"""Many files, many columns, many ingests at once, many epochs."""

import multiprocessing
import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from penstock.components.errors import UsageError
from penstock.components.example_gen.ingest import ingest
from penstock.components.example_gen.options import IngestInput, IngestOptions, Split, SplitOptions
from penstock.components.packing.options import PackOptions
from penstock.components.packing.pack import pack
from penstock.components.sources.binary import Binary
from penstock.components.tfrecord.checked import checked_manifest
from penstock.components.tfrecord.sharding import ShardOptions

pytestmark = pytest.mark.slow

ONE = SplitOptions((Split("train"),))
OPTIONS = IngestOptions(shards=ShardOptions(shards=2))


def ingested(source, output, options=OPTIONS):
    job = IngestInput(*source, splits=ONE)
    return ingest([job], output, options)


def test_20_000_small_files_in_200_folders(tmp_path):
    for folder in range(200):
        place = tmp_path / "files" / f"{folder:03d}"
        place.mkdir(parents=True)
        for file in range(100):
            (place / f"{file:02d}.bin").write_bytes(b"%d" % (100 * folder + file))
    source = (str(tmp_path / "files"), Binary())
    manifest = ingested(source, tmp_path / "out")
    assert manifest.account.written == {"train": 20_000}
    assert manifest.source_files == 20_000
    assert [shard.rows for shard in manifest.shards] == [10_000, 10_000]


def test_1000_columns_from_csv_to_a_packed_batch(tmp_path):
    from penstock.components.trainer.input.input import Input
    from penstock.components.trainer.input.options import InputOptions

    names = [f"c{i:03d}" for i in range(1000)]
    lines = [",".join(str(row * 1000 + i) for i in range(1000)) for row in range(200)]
    (tmp_path / "wide.csv").write_text("\n".join([",".join(names), *lines]))
    manifest = ingested((str(tmp_path / "wide.csv"),), tmp_path / "rows")
    assert [column.name for column in manifest.columns] == names
    pack(str(tmp_path / "rows"), tmp_path / "packed", PackOptions())
    data = Input.packed(str(tmp_path / "packed"), options=InputOptions(batch_size=200)).train()
    batch = next(data.as_numpy_iterator())
    assert sorted(batch) == names
    assert sorted(batch["c999"].ravel()) == [row * 1000 + 999 for row in range(200)]


def _one_of_eight(source, output, together, said):
    together.wait()
    try:
        ingested((source,), output)
        said.put("")
    except UsageError as error:
        said.put(str(error))


@pytest.mark.parametrize("same", [True, False])
def test_eight_ingests_at_once(tmp_path, same):
    source = tmp_path / "a.csv"
    source.write_text("id\n" + "".join(f"{i}\n" for i in range(20_000)))
    clean = ingested((str(source),), tmp_path / "clean")
    context = multiprocessing.get_context("fork")
    together, said = context.Barrier(8), context.SimpleQueue()
    outputs = [tmp_path / ("out" if same else f"out{i}") for i in range(8)]
    workers = [
        context.Process(target=_one_of_eight, args=(str(source), output, together, said))
        for output in outputs
    ]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    errors = [error for error in (said.get() for _ in workers) if error]
    text = f"{tmp_path}/out exists already; name another output or pass --overwrite"
    assert errors == [text] * 7 if same else errors == []
    for output in outputs:
        assert checked_manifest(output) == clean
    assert set(os.listdir(tmp_path)) == {"a.csv", "clean", *(output.name for output in outputs)}


# 50,000 rows of 50 numbers are 10 MB, and each epoch is one pass. If passes were kept in memory,
# eight more epochs would take 80 MB more.
TRAINING = """
    import ctypes, sys, keras, psutil
    import numpy as np, pyarrow as pa
    import tensorflow as tf
    from penstock.training import Input, InputOptions, TrainOptions, train
    from penstock.components.tfrecord.encoder import encode_examples
    from penstock.components.tfrecord.writer import frame_records
    folder = sys.argv[1]
    numbers = np.random.default_rng(0).normal(size=(50_000, 50)).astype(np.float32)
    x = pa.ListArray.from_arrays(np.arange(0, 2_500_001, 50, dtype=np.int32), numbers.ravel())
    batch = pa.RecordBatch.from_arrays([x, pa.array(numbers[:, 0])], names=["x", "y"])
    with open(f"{folder}/data", "wb") as out:
        for part in range(0, 50_000, 5000):
            out.write(b"".join(frame_records(encode_examples(batch.slice(part, 5000))).to_pylist()))
    spec = {name: tf.io.FixedLenFeature([size], tf.float32) for name, size in (("x", 50), ("y", 1))}
    data = Input.rows([f"{folder}/data"], spec, label="y",
                      options=InputOptions(batch_size=500, seed=1)).train
    inputs = keras.Input((50,), name="x")
    model = keras.Model({"x": inputs}, keras.layers.Dense(1)(inputs))
    model.compile("sgd", "mse")
    def told(epoch, logs):
        ctypes.CDLL(None).malloc_trim(0)  # what is only kept for later does not count
        print("epoch", epoch + 1, psutil.Process().memory_info().rss >> 20, flush=True)
    options = TrainOptions(max_steps=1000, steps_per_epoch=100, checkpoint_every_steps=50)
    train(lambda: model, data, data().take(20), options=options, model_run_dir=f"{folder}/run",
          resume_dir=f"{folder}/resume",
          callbacks=[keras.callbacks.LambdaCallback(on_epoch_end=told)])
"""


def test_ten_epochs_take_no_more_memory_than_two(tmp_path):
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", textwrap.dedent(TRAINING), str(tmp_path)],
        capture_output=True,
        text=True,
        check=False,
        cwd=Path(__file__).parents[2],
        # With more arenas of malloc, memory would grow for ten epochs, until each of TensorFlow's
        # threads has filled its own arena.
        env={**os.environ, "MALLOC_ARENA_MAX": "2"},
    )
    assert done.returncode == 0, done.stderr[-2000:]
    lines = [line.split() for line in done.stdout.splitlines() if line.startswith("epoch ")]
    mib = {int(epoch): int(size) for _, epoch, size in lines}
    assert sorted(mib) == list(range(1, 11))
    assert mib[10] - mib[2] < 32, mib
