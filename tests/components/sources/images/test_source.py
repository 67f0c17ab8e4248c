import hashlib
import struct
import subprocess
import sys
import zlib

import pytest

from penstock.components.errors import DataError
from penstock.components.sources.images.options import Images
from penstock.components.sources.images.source import open_images
from penstock.components.sources.open import open_source


def order(source, parts=1):
    rows = [row for run in source.cut(parts) for batch in source.read(run)
            for row in batch.table.column(5).to_pylist()]  # fmt: skip
    return [row.decode() for row in rows]


def test_features_of_an_image(photos, encoded, read_images):
    data = encoded(mode="L")
    rows, _ = read_images(photos("cat/a.jpg", data), content_digest=True)
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


def test_shards_mix_the_classes_and_only_the_seed_decides(zoo):
    source = open_source(str(zoo), Images())
    first = order(source)
    assert len(set(first)) == 40
    assert order(source, parts=3) == first
    assert {name[:3] for name in first[:10]} == {"cat", "dog"}
    assert order(open_source(f"{zoo}/*", Images())) == first
    assert order(open_source(str(zoo), Images(shuffle_seed=1))) != first


def test_memory_of_a_batch_is_bounded(zoo, monkeypatch):
    source = open_source(str(zoo), Images())
    sizes = [b.table.num_rows for b in source.read(source.cut(1)[0])]
    assert sizes == [16, 24]
    monkeypatch.setattr("penstock.components.sources.whole_files._BATCH_BYTES", 3000)
    batches = [b.table for b in source.read(source.cut(1)[0])]
    assert sum(table.num_rows for table in batches) == 40
    assert all(table.num_rows <= 6 for table in batches)


def bomb():
    body = b"IHDR" + struct.pack(">IIBBBBB", 50_000, 50_000, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + struct.pack(">I", 13) + body + struct.pack(">I", zlib.crc32(body))


@pytest.mark.parametrize("layout", [{}, {"layout": "resized", "size": 8}, {"layout": "decoded"}])
def test_bad_images_are_rejected_with_their_path(photos, encoded, read_images, layout):
    good = encoded()
    bad = {
        "bomb.png": (bomb(), "`max_pixels`"),
        "cut.jpg": (good[:-40], "truncated JPEG"),
        "cut.png": (encoded("PNG")[:-13], "truncated PNG"),
        "empty.jpg": (b"", "is empty"),
        "other.png": (good, "its extension says PNG but it holds JPEG; rename or convert it"),
        "photo.tif": (b"II*\0" + bytes(99), "is TIFF"),
        "text.jpg": (b"hello", "not an image"),
    }
    for name, (data, _) in bad.items():
        photos(f"cat/{name}", data)
    rows, rejected = read_images(photos("cat/good.jpg", good), parts=3, **layout)
    assert [row["image/filename"] for row in rows] == [b"cat/good.jpg"]
    for line, (name, (_, reason)) in zip(rejected, bad.items(), strict=True):
        assert line.startswith(f"photos/cat/{name}: ")
        assert reason in line


def test_of_a_bad_image_little_is_kept(photos, encoded, read_out):
    data = encoded(width=400, height=400)[:-2]
    out = read_out(open_source(str(photos("cat/a.jpg", data)), Images()))
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


def test_nothing_left_is_an_error(photos, encoded):
    root = photos("a.jpg", encoded())
    with pytest.raises(
        DataError, match="no image is left: all are without label, and `unlabelled`"
    ):
        open_images([str(root)], Images(unlabelled="drop"))


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
