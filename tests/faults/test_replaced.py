"""Outputs that another process replaces (`--overwrite`) while they are read.

A reader gives only old rows; if it cannot read them all, it ends with a line that names the shard.
"""

import itertools
import os

import keras
import pytest
import tensorflow as tf

from penstock.components.errors import DataError
from penstock.components.example_gen.ingest import ingest
from penstock.components.example_gen.options import IngestInput, IngestOptions, Split, SplitOptions
from penstock.components.packing.options import PackOptions
from penstock.components.packing.pack import pack
from penstock.components.readers.rows import Rows
from penstock.components.sources.tfrecords.examples import find_splits, read_payloads
from penstock.components.tfrecord.example_proto import parse_example
from penstock.components.tfrecord.sharding import ShardOptions
from penstock.components.trainer.input.input import Input
from penstock.components.trainer.input.options import InputOptions
from penstock.components.trainer.loop import train
from penstock.components.trainer.options import TrainOptions

pytestmark = pytest.mark.slow

FOUR = ShardOptions(shards=4)
NEW = 1000
MANY = 100_000  # more rows than tf.data prefetches
SPEC = {"id": tf.io.FixedLenFeature([1], tf.int64)}
OPTIONS = InputOptions(batch_size=10, seed=1)


class Output:
    """Rows 0 to 399, as Examples and packed, until rows 1000 to 1399 replace them."""

    def __init__(self, folder):
        self._folder, self.rows, self.packed = folder, folder / "rows", folder / "packed"
        self._write(0)

    def replace(self):
        self._write(NEW)

    def _write(self, first):
        data = self._folder / "data.csv"
        data.write_text("id\n" + "".join(f"{first + i}\n" for i in range(400)))
        job = IngestInput(str(data), splits=SplitOptions((Split("train"),)))
        ingest([job], self.rows, IngestOptions(shards=FOUR), overwrite=True)
        pack(str(self.rows), self.packed, PackOptions(block_rows=8, shards=FOUR), overwrite=True)


@pytest.fixture
def output(tmp_path):
    return Output(tmp_path)


def ids_of(batches):
    for batch in batches:
        yield from batch["id"].ravel().tolist()


def test_training_input_on_replaced_rows_ends_with_one_line_and_old_rows_alone(output):
    rows = ids_of(Input.rows(str(output.rows), SPEC, options=OPTIONS).train().as_numpy_iterator())
    seen = [next(rows)]
    output.replace()
    with pytest.raises(tf.errors.UnknownError, match=r"DataError: .*: was replaced while"):
        seen.extend(itertools.islice(rows, MANY))
    assert max(seen) < NEW


def cut(path):
    os.truncate(path, 1000)


def overwritten(path):
    path.write_bytes(bytes(path.stat().st_size))


@pytest.mark.parametrize("change", [cut, overwritten, None])
def test_training_input_on_changed_packed_shards_ends_with_one_line(output, change):
    rows = ids_of(Input.packed(str(output.packed), options=OPTIONS).train().as_numpy_iterator())
    seen = [next(rows)]
    if change is None:
        output.replace()
    else:
        change(output.packed / "Split-train/data-00002-of-00004.arrow")
    with pytest.raises(tf.errors.UnknownError, match=r"DataError: .*-of-00004.arrow: was replaced"):
        seen.extend(itertools.islice(rows, MANY))
    assert max(seen) < NEW


def test_training_on_replaced_rows_is_one_line_that_names_the_shard(output, tmp_path):
    data = Input.rows(str(output.rows), SPEC, label="id", options=OPTIONS).train()
    data = data.map(
        lambda features, label: ({"x": tf.zeros_like(label, tf.float32)}, tf.zeros_like(label))
    )
    x = keras.Input((1,), name="x")

    def build_model():
        model = keras.Model({"x": x}, keras.layers.Dense(1)(x))
        model.compile("sgd", "mse")
        return model

    with pytest.raises(DataError) as caught:
        train(
            build_model,
            data,
            options=TrainOptions(max_steps=20_000, steps_per_epoch=10),
            model_run_dir=str(tmp_path / "run"),
            callbacks=[
                keras.callbacks.LambdaCallback(
                    on_epoch_end=lambda epoch, logs: output.replace() if epoch == 0 else None
                )
            ],
        )
    text = str(caught.value)
    assert text.startswith("the input cannot be read after step ")
    assert f": {output.rows}/Split-train/data_tfrecord-0000" in text
    assert text.endswith(": was replaced while it was read; start again")


@pytest.mark.parametrize("kind", ["rows", "packed"])
def test_reader_of_replaced_rows_by_number_names_the_shard(output, kind):
    rows = Rows(getattr(output, kind))
    first = rows[0]["id"]
    output.replace()
    if kind == "packed":
        with pytest.raises(DataError, match=r"-00000-of-00004\.arrow: was replaced while"):
            _ = rows[0]
    else:
        assert rows[0]["id"] == first < NEW  # the shard of row 0 is open
    with pytest.raises(DataError, match=r"-00003-of-00004(\.arrow)?: was replaced while"):
        _ = rows[399]


def test_shard_replaced_after_the_plan_of_a_packing_is_named(output):
    [split] = find_splits(str(output.rows), ["train"])
    files = list(zip(split.files, split.shards, strict=True))
    began = read_payloads(*files[0], rows=1)
    payloads = next(began)
    output.replace()
    payloads += [payload for some in began for payload in some]  # the old file is still open
    assert max(parse_example(p).context.feature["id"].int64_list.value[0] for p in payloads) < NEW
    for file, shard in files[1:]:
        with pytest.raises(DataError, match=f"{file}: sha256 .* the content was altered"):
            list(read_payloads(file, shard))
