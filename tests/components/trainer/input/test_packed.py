import itertools
import json
import shutil

import numpy as np
import pytest
import tensorflow as tf
from row_files import example, write_shards

from penstock.components.doctor.verify import verify
from penstock.components.errors import DataError, UsageError
from penstock.components.packing.facts import StatedColumn
from penstock.components.packing.options import ImageColumn, PackOptions
from penstock.components.packing.pack import pack
from penstock.components.readers.rows import Rows
from penstock.components.tfrecord.sharding import ShardOptions
from penstock.components.trainer.input import files
from penstock.components.trainer.input.files import find_input
from penstock.components.trainer.input.input import Input
from penstock.components.trainer.input.options import InputOptions
from tests.components.trainer.conftest import flat, rows_of

ROWS = 103
PIXELS = (5, 7, 3)
FIRST = "Split-train/data-00000-of-00004.arrow"


@pytest.fixture(scope="module")
def rows(tmp_path_factory, data):
    """A folder with a manifest and Examples of `row`, `x`, `y` and `name`; a third lack `name`."""
    return data.write_examples(tmp_path_factory.mktemp("rows"))


@pytest.fixture(scope="module")
def packed(rows, tmp_path_factory):
    """The same rows, packed: blocks of at most 8 rows, 4 shards."""
    folder = tmp_path_factory.mktemp("packed") / "p"
    pack(str(rows), folder, PackOptions(block_rows=8, shards=ShardOptions(shards=4)))
    return str(folder)


@pytest.fixture(scope="module")
def images(tmp_path_factory):
    """103 packed images; every pixel value of an image is the number of its row."""
    root = tmp_path_factory.mktemp("images")
    (root / "rows/Split-train").mkdir(parents=True)
    with tf.io.TFRecordWriter(str(root / "rows/Split-train/data")) as out:
        for row in range(ROWS):
            name = b"%d.png" % row
            out.write(
                example(row=[row], image=[bytes([row]) * 105], filename=[name], format=[b"png"])
            )
    options = PackOptions(
        block_rows=8, shards=ShardOptions(shards=3), images=(ImageColumn("image", (5, 7)),)
    )
    pack(str(root / "rows"), root / "packed", options)
    return str(root / "packed")


@pytest.fixture(params=["rows", "images"])
def either(request, packed, images):
    """The folder of packed rows, or of packed images."""
    return packed if request.param == "rows" else images


@pytest.fixture
def copy(packed, tmp_path):
    return shutil.copytree(packed, tmp_path / "copy")


def test_a_window_has_as_many_rows_as_the_options_say(images):
    """A window of 50 images is filled with blocks of 8 rows, taken from the 3 files in turn."""

    def first(window):
        options = InputOptions(batch_size=10, shuffle_window_rows=window, seed=1)
        return flat(rows_of(Input.packed(images, options=options).train(), 5))

    assert sorted(first(50)) == sorted(first(1))
    assert first(50) != first(1)
    assert sorted(first(103)) != sorted(first(1))


@pytest.fixture(scope="module")
def texts(tmp_path_factory):
    """96 rows; texts depend on the row: one in `a`, two in `b`, one of three values in `c`."""
    root = tmp_path_factory.mktemp("texts")
    (root / "rows/Split-train").mkdir(parents=True)
    with tf.io.TFRecordWriter(str(root / "rows/Split-train/data")) as out:
        for row in range(96):
            a, *b, c = (text_of(slot, row) for slot in range(4))
            out.write(example(row=[row], a=[a], b=b, c=[c]))
    stated = {"row": StatedColumn("INT", (1,))} | {
        name: StatedColumn("BYTES", (width,)) for name, width in (("a", 1), ("b", 2), ("c", 1))
    }
    options = PackOptions(block_rows=16, shards=ShardOptions(shards=2))
    manifest = pack(str(root / "rows"), root / "packed", options, stated=stated)
    storages = [column["storage"] for column in manifest.packed["columns"]]
    assert storages == ["int64", "text", "text", "words"]
    return str(root / "packed")


def text_of(slot, row):
    return b"%d of %d " % (slot, row) * (row % 25) if slot < 3 else b"kind %d" % (row % 3)


@pytest.mark.parametrize(("batch", "window"), [(8, 16_384), (8, 32), (5, 24), (96, 96)])
def test_texts_are_those_of_their_rows_whether_plain_or_not(texts, batch, window):
    options = InputOptions(batch_size=batch, shuffle_window_rows=window, seed=1)
    data = Input.packed(texts, options=options)
    for found in [*data.train().take(192 // batch), *data.eval(split="train")]:
        rows = found.pop("row").numpy().ravel().tolist()
        parts = [part.numpy().reshape(len(rows), -1) for part in found.values()]
        expected = [[text_of(slot, row) for slot in range(4)] for row in rows]
        assert np.concatenate(parts, axis=1).tolist() == expected


def test_rows_have_the_texts_of_tensors(texts):
    rows = Rows(texts)
    expected = [[text_of(slot, row["row"]) for slot in range(4)] for row in rows]
    for row in [0, 1, 15, 16, 95, 40]:
        found = rows[row]
        assert [found["a"], *found["b"].tolist(), found["c"]] == expected[row]
    [batch] = rows.batches(batch_size=96)
    columns = batch.to_pydict()
    assert columns["a"] == [row[0] for row in expected]
    assert columns["b"] == [row[1:3] for row in expected]
    assert verify(texts).faults == ()


def test_batches_that_are_kept_stay_as_they_were(either):
    """The memory of a batch is reused only when the batch no longer exists."""
    dataset = Input.packed(either, options=InputOptions(batch_size=10)).train()
    batches = iter(dataset)
    kept = list(itertools.islice(batches, 12))
    before = [tf.nest.map_structure(lambda part: part.numpy().tolist(), one) for one in kept]
    for _ in itertools.islice(batches, 100):
        pass
    after = [tf.nest.map_structure(lambda part: part.numpy().tolist(), one) for one in kept]
    assert after == before


def test_remote_shards_are_read_from_copies_that_are_checked(copy, monkeypatch):
    monkeypatch.setattr(files, "local_folder", {"gs://b/packed": str(copy)}.get)
    remote = Input.packed("gs://b/packed", options=InputOptions(batch_size=50))
    assert sorted(flat(rows_of(remote.eval(split="train")))) == list(range(103))
    data = bytearray((copy / FIRST).read_bytes())
    data[100] ^= 1
    (copy / FIRST).write_bytes(data)
    with pytest.raises(DataError, match=r"00000-of-00004.arrow: sha256 .*content was altered"):
        remote.eval(split="train")


def test_more_shards_than_files_may_be_open(rows, tmp_path, monkeypatch):
    monkeypatch.setattr("penstock.components.readers.packed_shards._OPEN_FILES", 2)
    monkeypatch.setattr("penstock.components.readers.packed_shards._KEPT_BYTES", 1)
    pack(str(rows), tmp_path / "p", PackOptions(block_rows=3, shards=ShardOptions(shards=20)))
    dataset = Input.packed(str(tmp_path / "p"), options=InputOptions(batch_size=103)).train()
    assert [sorted(batch) for batch in rows_of(dataset, 2)] == [list(range(103))] * 2


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("block_rows", 16, f"{FIRST}: 4 blocks, where 25 rows in blocks of 16 make 2"),
        ("version", 2, r"manifest\.json: packed records of version 2, this Pe"),
    ],
)
def test_shards_of_another_layout_than_the_manifests_are_refused(copy, name, value, message):
    path = copy / "manifest.json"
    manifest = json.loads(path.read_text())
    manifest["packed"][name] = value
    path.write_text(json.dumps(manifest))
    with pytest.raises(DataError, match=message):
        Input.packed(str(copy), options=InputOptions(batch_size=1)).train()


def test_features_are_those_of_the_row_examples(rows, packed, data):
    options = InputOptions(batch_size=103)
    plain, plain_y = next(
        iter(Input.rows(str(rows), data.spec, options=options, label="y").eval(split="train"))
    )
    found, y = next(iter(Input.packed(packed, options=options, label="y").eval(split="train")))
    assert {n: (t.dtype, t.shape) for n, t in found.items()} == {
        n: (t.dtype, t.shape) for n, t in plain.items()
    }
    order = np.argsort(found["row"].numpy().ravel())
    plain_order = np.argsort(plain["row"].numpy().ravel())
    for name in plain:
        expected = plain[name].numpy()[plain_order].tolist()
        assert found[name].numpy()[order].tolist() == expected
    assert y.numpy()[order].tolist() == plain_y.numpy()[plain_order].tolist()


@pytest.mark.parametrize("read", ["eval", "train"])
def test_images_come_with_their_rows(images, read):
    data = Input.packed(images, options=InputOptions(batch_size=103))
    batch = next(iter(getattr(data, read)(split="train")))
    assert batch["image"].shape == (103, *PIXELS)
    assert batch["image"].dtype == tf.uint8
    for row, image in zip(batch["row"].numpy().ravel(), batch["image"].numpy(), strict=True):
        assert (image == row).all()
    expected = [b"%d.png" % row for row in batch["row"].numpy().ravel()]
    assert batch["filename"].numpy().ravel().tolist() == expected
    assert set(batch["format"].numpy().ravel()) == {b"png"}


def test_lists_are_sparse_as_those_of_row_examples_are(tmp_path):
    rows = [example(n=list(range(i)) or None, s=[b"w"] * i or None) for i in range(5)]
    write_shards(tmp_path / "rows", rows)
    pack(str(tmp_path / "rows"), tmp_path / "packed", PackOptions(block_rows=2))
    options = InputOptions(batch_size=5)
    batch = next(iter(Input.packed(str(tmp_path / "packed"), options=options).eval(split="train")))
    assert isinstance(batch["n"], tf.SparseTensor)
    numbers = tf.RaggedTensor.from_sparse(batch["n"]).to_list()
    assert sorted(numbers) == [[], [0], [0, 1], [0, 1, 2], [0, 1, 2, 3]]
    words = tf.RaggedTensor.from_sparse(batch["s"]).to_list()
    assert words == [[b"w"] * len(n) for n in numbers]


def test_the_pattern_that_tfx_hands_over_is_read_by_the_manifest(packed):
    source = [f"{packed}/Split-train/*"]
    options = InputOptions(batch_size=50)
    assert sorted(flat(rows_of(Input.packed(source, options=options).eval()))) == list(range(103))


def test_rows_and_packed_records_are_not_taken_for_each_other(rows, packed):
    with pytest.raises(UsageError, match=f"{rows}: holds row Examples; read them with Input.rows"):
        Input.packed(str(rows), options=InputOptions(batch_size=1)).train()
    with pytest.raises(UsageError, match=f"{packed}: holds packed records; read them with Input.p"):
        find_input(packed, split="train")


def test_columns_that_are_not_wanted_are_not_read(either):
    options = InputOptions(batch_size=103)
    (batch,) = Input.packed(either, options=options, columns=["row"]).eval(split="train")
    assert list(batch) == ["row"]
    batch = next(iter(Input.packed(either, options=options, columns=["row"]).train()))
    assert sorted(batch["row"].numpy().ravel()) == list(range(103))
    with pytest.raises(UsageError, match="column 'z' is not packed; there are "):
        Input.packed(either, options=options, columns=["z"]).train()
