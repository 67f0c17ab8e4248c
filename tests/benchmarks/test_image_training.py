import numpy as np
import pytest

from penstock.benchmarks import packed_images
from penstock.benchmarks.image_training import application, make_model
from penstock.components.errors import UsageError


@pytest.fixture
def pictures(tmp_path):
    """70 pictures of two classes, one in a folder of its own, and a note."""
    from PIL import Image

    for number in range(70):
        kind = "dogs/old" if number == 0 else ("cats", "dogs")[number % 2]
        file = tmp_path / kind / f"{number}{('.JPG', '.png')[number % 2]}"
        file.parent.mkdir(parents=True, exist_ok=True)
        Image.new("RGB", (20, 16), (number, 0, 0)).save(file)
    (tmp_path / "cats" / "notes.txt").write_text("of cats")
    return tmp_path


def test_own_pictures_fill_batches_and_are_known_again(pictures, tmp_path):
    files = packed_images.own_pictures(str(pictures))
    assert len(files) == 64
    assert {file.suffix for file in files} == {".JPG", ".png"}
    assert files == packed_images.own_pictures(str(pictures))
    root = packed_images.root_of(tmp_path, 64, str(pictures))
    assert root == packed_images.root_of(tmp_path, 64, str(pictures))
    files[0].write_bytes(b"another")
    assert root != packed_images.root_of(tmp_path, 64, str(pictures))


def test_own_pictures_too_few_for_a_batch_are_refused(pictures):
    with pytest.raises(UsageError) as caught:
        packed_images.own_pictures(str(pictures / "dogs"))
    assert str(caught.value) == (
        f"{pictures}/dogs: 1 JPEG or PNG files in folders of it; expected a folder a class and at "
        "least 32 files"
    )


def test_own_pictures_are_read_each_once(pictures, tmp_path):
    root = packed_images.prepare(tmp_path / "made", 32, str(pictures))
    batch = next(iter(packed_images.jpeg_rows(root, 8).take(1)))
    assert batch["image"].shape == (32, 8, 8, 3)
    assert sorted(np.unique(batch["label"])) == [0, 1]
    packed_images.check("packed", iter(packed_images.packed(root)), 32, root)


def test_a_network_is_found_by_its_usual_name():
    assert application("inception_resnet_v2") == "InceptionResNetV2"
    assert application(None) is None
    with pytest.raises(UsageError, match=r"application must be one of .*; got 'resnet_9000'"):
        application("resnet_9000")


def test_a_network_of_keras_has_an_output_a_class():
    model = make_model(32, 16, "MobileNetV2", classes=3)
    assert model.output_shape == (None, 3)
    assert model(np.zeros((2, 32, 32, 3), np.uint8)).shape == (2, 3)
