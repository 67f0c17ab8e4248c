"""Tests the path from image files to batches and Examples: source, function `ingest`, command."""

import hashlib
import subprocess
import sys

import pytest
import tensorflow as tf
from reading import rows_of
from scipy.io import savemat

from penstock.components.errors import DataError
from penstock.components.example_gen.ingest import ingest
from penstock.components.example_gen.options import IngestInput, IngestOptions, Split, SplitOptions
from penstock.components.sources.images.options import Images
from penstock.components.sources.open import open_source
from penstock.components.tfrecord.sharding import ShardOptions
from penstock.pipelines.cli.main import main

ONE = SplitOptions((Split("all"),))


def test_features_of_an_image(put, encoded, read_images):
    data = encoded(mode="L")
    rows, _ = read_images(put("cat/a.jpg", data), content_digest=True)
    assert rows == [
        {
            "image/encoded": data,
            "image/format": b"JPEG",
            "image/height": 16,
            "image/width": 32,
            "image/channels": 1,
            "image/filename": b"cat/a.jpg",
            "image/class/label": 0,
            "image/class/text": b"cat",
            "image/key/sha256": hashlib.sha256(data).hexdigest().encode(),
        }
    ]


def test_shards_mix_the_classes(zoo):
    rows = rows_of(open_source(str(zoo), Images()), 3)
    names = [row["image/filename"] for row in rows]
    assert len(set(names)) == 40
    assert {name[:3] for name in names[:10]} == {b"cat", b"dog"}


def test_memory_of_a_batch_is_bounded(zoo, monkeypatch):
    source = open_source(str(zoo), Images())
    sizes = [b.table.num_rows for b in source.read(source.cut(1)[0])]
    assert sizes == [16, 24]
    monkeypatch.setattr("penstock.components.sources.whole_files._BATCH_BYTES", 3000)
    batches = [b.table for b in source.read(source.cut(1)[0])]
    assert sum(table.num_rows for table in batches) == 40
    assert all(table.num_rows <= 6 for table in batches)


@pytest.mark.parametrize("layout", [{}, {"layout": "resized", "size": 8}, {"layout": "decoded"}])
def test_bad_images_are_rejected_with_their_path(put, encoded, read_images, layout):
    good = encoded()
    bad = {
        "bomb.png": (encoded("PNG", width=100, height=100), "`max_pixels`"),
        "cut.jpg": (good[:-40], "truncated JPEG"),
        "cut.png": (encoded("PNG")[:-13], "truncated PNG"),
        "empty.jpg": (b"", "is empty"),
        "other.png": (good, "its extension says PNG but it holds JPEG; rename or convert it"),
        "photo.tif": (b"II*\0" + bytes(99), "is TIFF"),
        "text.jpg": (b"hello", "not an image"),
    }
    for name, (data, _) in bad.items():
        put(f"cat/{name}", data)
    root = put("cat/good.jpg", good)
    rows, rejected = read_images(root, parts=3, max_pixels=9999, **layout)
    assert [row["image/filename"] for row in rows] == [b"cat/good.jpg"]
    for line, (name, (_, reason)) in zip(rejected, bad.items(), strict=True):
        assert line.startswith(f"put/cat/{name}: ")
        assert reason in line


def test_of_a_bad_image_little_is_kept(put, encoded, read_out):
    data = encoded(width=400, height=400)[:-2]
    out = read_out(open_source(str(put("cat/a.jpg", data)), Images()))
    assert [row.raw for row in out.rejected] == [data[:64]]


def test_links_are_rejected_before_work_starts(zoo, tmp_path, read_images):
    (tmp_path / "key.jpg").write_bytes(b"secret")
    (zoo / "cat" / "link.jpg").symlink_to(tmp_path / "key.jpg")
    source = open_source(str(zoo), Images())
    assert [str(row) for row in source.rejected_by_scan] == [
        f"{zoo}/cat/link.jpg: is a link to {tmp_path}/key.jpg, outside {zoo}; copy the file"
    ]
    rows, rejected = read_images(zoo)
    assert len(rows) == 40
    assert len(rejected) == 1
    assert source.fingerprint != open_source(f"{zoo}/*/*[0-9].jpg", Images()).fingerprint


def test_nothing_left_is_an_error(put, encoded):
    root = put("a.jpg", encoded())
    with pytest.raises(
        DataError, match="no image is left: all are without label, and `unlabelled`"
    ):
        open_source(str(root), Images(unlabelled="drop"))


def test_without_pillow_one_line_says_what_to_install(zoo):
    code = (
        "import sys; sys.modules['PIL'] = None\n"
        "from penstock.components.errors import UsageError\n"
        "from penstock.components.sources.open import open_source\n"
        "from penstock.components.sources.images.options import Images\n"
        "try:\n    open_source(sys.argv[1], Images())\n"
        "except UsageError as error:\n    print(error)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(zoo)], capture_output=True, text=True, check=True
    )
    assert done.stdout == 'images need Pillow: pip install "penstock-tfx[images]"\n'


def run(root, output, splits=ONE, ingest_options=None, **options):
    chosen = ingest_options or IngestOptions(shards=ShardOptions(shards=3))
    job = IngestInput(str(root), Images(**options), splits)
    return ingest([job], output, chosen)


def examples(output, split="all"):
    files = sorted(map(str, (output / f"Split-{split}").iterdir()))
    records = tf.data.TFRecordDataset(files)
    return [tf.train.Example.FromString(record.numpy()).features.feature for record in records]


@pytest.mark.parametrize("feature", [None, "image/key/sha256"])
def test_equal_images_share_their_split(zoo, tmp_path, feature):
    for file in list(zoo.glob("*/*")):
        file.with_name(f"again-{file.name}").write_bytes(file.read_bytes())
    splits = SplitOptions((Split("train", 2), Split("eval", 1)), feature)
    run(zoo, tmp_path / "out", splits, content_digest=True)
    train, held_out = (
        {row["image/key/sha256"].bytes_list.value[0] for row in examples(tmp_path / "out", split)}
        for split in ("train", "eval")
    )
    assert len(train) + len(held_out) == 40
    assert not train & held_out


def test_the_command_with_a_mat_file(zoo, tmp_path, monkeypatch, capsys):
    names = [f"{number:02}.jpg" for number in range(40)]
    savemat(tmp_path / "annos.mat", {"fname": names, "class": [n % 4 + 1 for n in range(40)]})
    arguments = ["ingest", str(zoo), str(tmp_path / "shards"), "--kind", "images", "--shards", "2",
                 "--labels", str(tmp_path / "annos.mat"), "--layout", "resized", "--size", "29",
                 "--split", "all=1"]  # fmt: skip
    monkeypatch.setattr("sys.argv", ["penstock", *arguments])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 0
    assert "40 rows read = 40 written" in capsys.readouterr().out
    row = examples(tmp_path / "shards")[0]
    assert [row[f"image/{side}"].int64_list.value[0] for side in ("height", "width")] == [29, 29]
    image = tf.io.decode_jpeg(row["image/encoded"].bytes_list.value[0])
    assert image.shape == (29, 29, 3)
    number = int(row["image/filename"].bytes_list.value[0][-6:-4])
    assert row["image/class/label"].int64_list.value[0] == number % 4 + 1
