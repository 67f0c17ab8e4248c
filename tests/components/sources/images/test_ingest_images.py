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
