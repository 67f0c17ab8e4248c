import json

import apache_beam as beam
import numpy as np
import pytest
import tensorflow as tf
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.runners.direct.direct_runner import BundleBasedDirectRunner
from row_files import example, sequence_example, write_shards

from penstock.components.doctor.verify import verify
from penstock.components.errors import DataError, UsageError
from penstock.components.packing.facts import StatedColumn
from penstock.components.packing.options import ImageColumn, PackOptions
from penstock.components.packing.pack import pack
from penstock.components.readers.rows import Rows
from penstock.components.tfrecord.manifest import read_manifest
from penstock.components.tfrecord.sharding import ShardOptions

SMALL = ShardOptions(shards=3)


def unpacked(folder, split="train"):
    """All rows as dicts of plain Python values, read without TensorFlow."""
    return [
        {k: [v] if isinstance(v, bytes) else np.atleast_1d(v).tolist() for k, v in row.items()}
        for row in Rows(folder, split=split)
    ]


def test_nothing_is_lost_whatever_the_storage(tmp_path, write_rows, mixed):
    rows = write_rows([mixed(i) for i in range(101)])
    options = PackOptions(block_rows=8, ids=("kind",), shards=SMALL)
    manifest = pack(str(rows), tmp_path / "packed", options)
    assert {c["name"]: c["storage"] for c in manifest.packed["columns"]} == {
        "id": "int64",
        "kind": "int32",
        "name": "words",
        "numbers": "list",
        "pair": "float32",
        "tags": "list",
        "weights": "list",
        "words": "text",
    }
    # 34 rows have k0, 34 have k1, and 33 have k2. The vocabulary lists the most frequent value
    # first, and equally frequent values in the order of their bytes.
    vocabulary = (tmp_path / "packed/vocabulary/kind.txt").read_text().split()
    assert vocabulary == ["k0", "k1", "k2"]
    found = sorted(unpacked(tmp_path / "packed"), key=lambda row: row["id"])
    assert len(found) == 101
    for i, row in enumerate(found):
        assert row == {
            "id": [i],
            "kind": [i % 3],
            "name": [b"name %d" % (i % 7)],
            "numbers": list(range(i % 4)),
            "pair": [i / 2, -i / 4],
            "tags": [b"t"] * (i % 3),
            "weights": [0.5] * (i % 3),
            "words": [b"a%d" % i, b"b"],
        }


def test_the_manifest_accounts_for_rows_and_verify_agrees(tmp_path, write_rows, mixed):
    rows = write_rows([mixed(i) for i in range(20)])
    write_rows([mixed(i) for i in range(7)], split="eval")
    write_rows([], split="none")
    manifest = pack(str(rows), tmp_path / "packed", PackOptions(block_rows=4, shards=SMALL))
    assert manifest == read_manifest(tmp_path / "packed")
    assert manifest.account.read == 27
    assert manifest.account.written == {"eval": 7, "none": 0, "train": 20}
    assert [shard.rows for shard in manifest.splits["train"]] == [6, 7, 7]
    report = verify(str(tmp_path / "packed"))
    assert report.faults == ()
    assert sorted(file.records for file in report.files) == [0, 1, 1, 1, 2, 2, 2]
    assert sorted(p.name for p in tmp_path.iterdir()) == ["packed", "rows"]


def test_the_seed_decides_the_order_and_the_bytes(tmp_path, write_rows, mixed):
    rows = write_rows([mixed(i) for i in range(100)])

    def ids(name, seed, **options):
        pack(str(rows), tmp_path / name, PackOptions(seed=seed, shards=SMALL, **options))
        return [row["id"][0] for row in unpacked(tmp_path / name)]

    first = ids("a", 1)
    assert sorted(first) == list(range(100))
    assert first != list(range(100))
    assert ids("b", 1) == first
    assert ids("c", 2) != first
    a, b = ((tmp_path / name / "manifest.json").read_bytes() for name in "ab")
    assert a == b


ENGINES = {
    "here": 1,
    # Penstock does not treat this runner as local, so a task raises I/O errors instead of returning
    # them.
    "other": lambda: beam.Pipeline(BundleBasedDirectRunner(), PipelineOptions([])),
    "two": 2,
}


@pytest.mark.parametrize(
    ("engine", "divided_bytes"),
    [("here", 1), ("other", 2**20), pytest.param("two", 2**20, marks=pytest.mark.slow)],
)
def test_any_engine_gives_the_same_bytes(
    tmp_path, write_rows, mixed, engine, divided_bytes, monkeypatch
):
    blob = bytes(range(256)) * 64
    rows = write_rows([{**mixed(i), "blob": blob + b"%d" % i} for i in range(300)])
    write_rows([mixed(i) for i in range(7)], split="eval")
    options = PackOptions(ids=("kind",), shards=SMALL)
    here = pack(str(rows), tmp_path / "here", options)
    monkeypatch.setattr("penstock.components.packing.tasks._DIVIDED_BYTES", divided_bytes)
    manifest = pack(str(rows), tmp_path / "packed", options, engine=ENGINES[engine])
    assert manifest.to_json() == here.to_json()
    assert manifest.account.written == {"eval": 7, "train": 300}
    assert verify(str(tmp_path / "packed")).faults == ()
    files = {path.name for path in (tmp_path / "packed").iterdir()}
    assert files == {"Split-eval", "Split-train", "manifest.json", "vocabulary"}


@pytest.mark.parametrize(
    ("on_missing", "storage", "values", "filled"),
    [("fill", "float32", [[0.0], [1.5]], 1), ("list", "list", [[], [1.5]], 0)],
)
def test_missing_values_are_filled_and_counted_or_kept(
    tmp_path, write_rows, on_missing, storage, values, filled
):
    rows = write_rows([{"id": 0, "x": None}, {"id": 1, "x": 1.5}])
    options = PackOptions(on_missing=on_missing)
    manifest = pack(str(rows), tmp_path / "packed", options)
    column = next(c for c in manifest.packed["columns"] if c["name"] == "x")
    assert (column["storage"], column["filled"]) == (storage, filled)
    found = sorted(unpacked(tmp_path / "packed"), key=lambda row: row["id"])
    assert [row["x"] for row in found] == values


def test_a_schema_decides_columns_and_shapes(tmp_path, write_rows):
    rows = write_rows([{"id": i, "m": [1.0, 2.0, 3.0, 4.0], "more": b"x"} for i in range(4)])
    stated = {
        "m": StatedColumn("FLOAT", (2, 2)),
        "absent": StatedColumn("INT", (1,)),
        "id": StatedColumn("INT", None),
    }
    pack(str(rows), tmp_path / "packed", PackOptions(), stated=stated)
    found = sorted(unpacked(tmp_path / "packed"), key=lambda row: row["id"])
    assert found[3] == {"m": [[1.0, 2.0], [3.0, 4.0]], "absent": [0], "id": [3]}
    with pytest.raises(DataError) as error:
        pack(str(rows), tmp_path / "b", PackOptions(), stated={"m": StatedColumn("FLOAT", (3,))})
    assert str(error.value) == (
        "column 'm': 4 rows have 4 values, the schema says 3; fix the schema or the rows"
    )
    with pytest.raises(DataError) as error:
        pack(str(rows), tmp_path / "b", PackOptions(), stated={"m": StatedColumn("INT", (4,))})
    assert str(error.value) == "column 'm' is FLOAT in the rows, INT in the schema"


def png(value, height=3, width=5):
    return tf.io.encode_png(tf.fill([height, width, 3], tf.cast(value, tf.uint8))).numpy()


def test_images_become_pixels(tmp_path, write_rows):
    raw = bytes([9]) * 45
    rows = write_rows([{"id": 0, "image": png(7)}, {"id": 1, "image": png(8)}])
    pack(str(rows), tmp_path / "a", PackOptions(images=(ImageColumn("image"),)))
    found = sorted(unpacked(tmp_path / "a"), key=lambda row: row["id"])
    assert [np.shape(row["image"]) for row in found] == [(3, 5, 3)] * 2
    assert [np.unique(row["image"]).tolist() for row in found] == [[7], [8]]

    rows = write_rows([{"image": png(7)}, {"image": raw}, {"image": png(8, 6, 10)}], folder="b")
    with pytest.raises(DataError) as error:
        pack(str(rows), tmp_path / "c", PackOptions(images=(ImageColumn("image"),)))
    assert str(error.value) == (
        "column 'image': an image of shape (6, 10, 3), the first has (3, 5, 3); state a size to "
        "resize to: --image image=HxW"
    )
    pack(str(rows), tmp_path / "c", PackOptions(images=(ImageColumn("image", (3, 5)),)))
    pixels = {np.unique(row["image"]).item() for row in unpacked(tmp_path / "c")}
    assert pixels == {7, 8, 9}


def test_raw_pixels_may_begin_like_an_image(tmp_path, write_rows):
    raw = b"BM" + bytes([9]) * 43
    rows = write_rows([{"image": raw}])
    pack(str(rows), tmp_path / "a", PackOptions(images=(ImageColumn("image", (3, 5)),)))
    (row,) = unpacked(tmp_path / "a")
    assert np.asarray(row["image"], np.uint8).tobytes() == raw


def test_ids_of_a_column_that_no_row_has_are_all_the_empty_string(tmp_path, write_rows):
    rows = write_rows([{"id": 0}, {"id": 1}])
    stated = {"kind": StatedColumn("BYTES", (1,))}
    manifest = pack(str(rows), tmp_path / "a", PackOptions(ids=("kind",)), stated=stated)
    assert [row["kind"] for row in unpacked(tmp_path / "a")] == [[0], [0]]
    assert manifest.packed["columns"][0]["filled"] == 2
    assert (tmp_path / "a/vocabulary/kind.txt").read_bytes() == b"\n"


@pytest.mark.parametrize(
    ("values", "options", "error", "text"),
    [
        ([1], {"columns": ("c",)}, UsageError, "no column 'c' with a value; there are a, b"),
        ([1], {"splits": ("eval",)}, UsageError, "rows: no split 'eval'; it has train"),
        (
            [1],
            {"ids": ("a",)},
            UsageError,
            "column 'a': ids need BYTES with equally many values per row",
        ),
        ([1, 1.5], {}, DataError, "Split-train: column 'a' is FLOAT, in rows before it INT"),
        (
            [b"x\ny"],
            {"ids": ("a",)},
            DataError,
            "a: the value b'x\\ny' has a line break, which a vocabulary of one value a line cannot "
            "hold; pack the column without ids",
        ),
        (
            [b"text"],
            {"images": (ImageColumn("a"),)},
            DataError,
            "column 'a' holds no JPEG, PNG, GIF or BMP; for raw pixels, state the shape: --image "
            "a=HxWxC",
        ),
    ],
)
def test_options_that_do_not_fit_the_rows_are_refused(
    tmp_path, write_rows, values, options, error, text
):
    rows = write_rows([{"a": value, "b": b"x"} for value in values])
    with pytest.raises(error) as caught:
        pack(str(rows), tmp_path / "packed", PackOptions(**options))
    assert str(caught.value).removeprefix(f"{tmp_path}/") == text
    assert not (tmp_path / "packed").exists()


def test_only_row_examples_are_packed(tmp_path, write_rows):
    with pytest.raises(DataError, match="no such folder of Examples"):
        pack(str(tmp_path / "none"), tmp_path / "packed", PackOptions())
    pack(str(write_rows([{"a": 1}])), tmp_path / "packed")
    with pytest.raises(UsageError, match=r"packed: is packed already; name the row Examples"):
        pack(str(tmp_path / "packed"), tmp_path / "again")


def test_image_columns_as_the_command_line_has_them():
    for text, column in {
        "image": ImageColumn("image"),
        "image/encoded=28x30": ImageColumn("image/encoded", (28, 30)),
        "image=28x30x1": ImageColumn("image", (28, 30), 1),
    }.items():
        assert ImageColumn.parse(text) == column
    for text in ("image=", "image=28", "image=28x28x2", "=28x28"):
        with pytest.raises(UsageError, match="--image takes NAME"):
            ImageColumn.parse(text)


def test_a_sequence_example_among_examples_is_refused(tmp_path, write_rows):
    rows = write_rows([{"id": 0}, {"id": 1}, {"id": 2}, {"id": 3}, sequence_example(s=[[1]])])
    with pytest.raises(DataError, match=r"data-00000-of-00002\.gz: record 2: is a SequenceExample"):
        pack(str(rows), tmp_path / "packed", PackOptions())


def test_told_kinds_give_the_same_bytes_as_found_ones(tmp_path, write_rows, mixed):
    """TensorFlow decodes rows if the features are known, tfx_bsl if they are not."""
    folder = write_rows([{**mixed(i), "some": i if i % 5 else None} for i in range(300)])
    shapes = {
        "id": (1,), "kind": (1,), "name": (1,), "numbers": None, "pair": (2,), "some": (1,),
        "tags": None, "weights": None, "words": (2,),
    }  # fmt: skip
    kinds = {"id": "INT", "numbers": "INT", "some": "INT", "pair": "FLOAT", "weights": "FLOAT"}
    stated = {n: StatedColumn(kinds.get(n, "BYTES"), shape) for n, shape in shapes.items()}
    options = PackOptions(shards=SMALL, block_rows=20, ids=("kind",))
    found = pack(str(folder), tmp_path / "found", options)
    told = pack(str(folder), tmp_path / "told", options, stated=stated)
    assert told.splits == found.splits


def test_features_that_an_ingest_did_not_sample_are_packed_too(tmp_path, artifact):
    path = artifact / "manifest.json"
    text = path.read_text().replace('"csv"', '"tfrecord"')
    raw = json.loads(text)
    raw["columns"] = [column for column in raw["columns"] if column["name"] == "id"]
    path.write_text(json.dumps(raw))
    manifest = pack(str(artifact), tmp_path / "packed", PackOptions())
    assert [column.name for column in manifest.columns] == ["id", "word"]


def test_the_folder_of_the_input_is_no_output(tmp_path):
    folder = tmp_path / "trips" / "rows"
    write_shards(folder, [example(x=[1.0])], shards=1)
    for output in (folder, tmp_path / "trips"):
        with pytest.raises(UsageError, match=f"{output}: holds the input {folder}; name another"):
            pack(str(folder), output, overwrite=True)
    assert (folder / "Split-train/data-00000-of-00001.gz").exists()
