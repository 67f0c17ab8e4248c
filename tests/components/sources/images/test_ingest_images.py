"""Images from files to Examples that TFX's own nodes take: the command, and the node."""

import pytest
import tensorflow as tf
from scipy.io import savemat

from penstock.components.example_gen.ingest import ingest
from penstock.components.example_gen.options import IngestInput, IngestOptions, Split, SplitOptions
from penstock.components.sources.images.options import Images
from penstock.components.tfrecord.sharding import ShardOptions
from penstock.pipelines.cli.main import main

ONE = SplitOptions((Split("all"),))


@pytest.fixture
def zoo(photos, encoded):
    for number in range(30):
        name = f"{'cat' if number < 15 else 'dog'}/{number:02}.jpg"
        root = photos(name, encoded(width=20 + number))
    return root


def run(root, output, splits=ONE, ingest_options=None, **options):
    chosen = ingest_options or IngestOptions(shards=ShardOptions(shards=3))
    job = IngestInput(str(root), Images(**options), splits)
    return ingest([job], output, chosen)


def examples(output, split="all"):
    files = sorted(map(str, (output / f"Split-{split}").iterdir()))
    records = tf.data.TFRecordDataset(files)
    return [tf.train.Example.FromString(record.numpy()).features.feature for record in records]


def test_records_are_images_and_shards_mix_classes(zoo, tmp_path):
    manifest = run(zoo, tmp_path / "out")
    assert manifest.account.written == {"all": 30}
    assert (manifest.source_kind, manifest.source_files) == ("images", 30)
    assert [shard.rows for shard in manifest.shards] == [10, 10, 10]
    rows = examples(tmp_path / "out")
    for row in rows:
        name = row["image/filename"].bytes_list.value[0].decode()
        assert row["image/encoded"].bytes_list.value[0] == (zoo / name).read_bytes()
        assert row["image/class/text"].bytes_list.value[0].decode() == name[:3]
    labels = [row["image/class/label"].int64_list.value[0] for row in rows]
    assert all(0 < sum(labels[at : at + 10]) < 10 for at in (0, 10, 20))


@pytest.mark.parametrize("feature", [None, "image/key/sha256"])
def test_equal_images_share_their_split(zoo, tmp_path, feature):
    for number in range(30):
        folder = "cat" if number < 15 else "dog"
        data = (zoo / folder / f"{number:02}.jpg").read_bytes()
        (zoo / folder / f"again-{number:02}.jpg").write_bytes(data)
    splits = SplitOptions((Split("train", 2), Split("eval", 1)), feature)
    run(zoo, tmp_path / "out", splits, content_digest=True)
    train, held_out = (
        {row["image/key/sha256"].bytes_list.value[0] for row in examples(tmp_path / "out", split)}
        for split in ("train", "eval")
    )
    assert len(train) + len(held_out) == 30
    assert not train & held_out


def test_the_command_with_a_mat_file(zoo, tmp_path, monkeypatch, capsys):
    names = [f"{'cat' if n < 15 else 'dog'}/{n:02}.jpg" for n in range(30)]
    savemat(tmp_path / "annos.mat", {"fname": names, "class": [n % 4 + 1 for n in range(30)]})
    arguments = ["ingest", str(zoo), str(tmp_path / "shards"), "--kind", "images", "--shards", "2",
                 "--labels", str(tmp_path / "annos.mat"), "--layout", "resized", "--size", "29",
                 "--split", "all=1"]  # fmt: skip
    monkeypatch.setattr("sys.argv", ["penstock", *arguments])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 0
    assert "30 rows read = 30 written" in capsys.readouterr().out
    row = examples(tmp_path / "shards")[0]
    assert [row[f"image/{side}"].int64_list.value[0] for side in ("height", "width")] == [29, 29]
    image = tf.io.decode_jpeg(row["image/encoded"].bytes_list.value[0])
    assert image.shape == (29, 29, 3)
    number = int(row["image/filename"].bytes_list.value[0][-6:-4])
    assert row["image/class/label"].int64_list.value[0] == number % 4 + 1
