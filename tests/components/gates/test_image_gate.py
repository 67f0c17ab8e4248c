import json
import os
import subprocess
import sys

import pytest
from google_store import GoogleStore
from row_files import example, write_shards
from tfx.types.standard_artifacts import Examples

from penstock.components.errors import DataError
from penstock.components.gates.image_gate import (
    ImageGate,
    find_image_problems,
    read_images,
)
from penstock.components.gates.options import ImageRules


def record(content, label=0, text="cat", size=(8, 6), channels=3):
    feature = {
        "image/encoded": [content],
        "image/height": [size[0]],
        "image/width": [size[1]],
        "image/channels": [channels],
    }
    if label is not None:
        feature |= {"image/class/label": [label], "image/class/text": [text.encode()]}
    return example(**feature)


def write(directory, **splits):
    for split, records in splits.items():
        write_shards(directory, records, shards=2, split=split)
    return str(directory)


COLUMNS = ["split", "label", "text", "height", "width", "channels"]
TRAIN = (record(b"aa"), record(b"bb"), record(b"cc", 1, "dog", (4, 4), 1))
EVAL = (record(b"dd"), record(b"ee", 1, "dog"))


def test_images_are_read_with_their_split_class_and_size(tmp_path):
    found = read_images(write(tmp_path, train=TRAIN, eval=EVAL), ["train", "eval"])
    cat, dog = ["train", 0, "cat", 8, 6, 3], ["train", 1, "dog", 4, 4, 1]
    assert sorted(found[COLUMNS].values.tolist()) == [
        ["eval", 0, "cat", 8, 6, 3],
        ["eval", 1, "dog", 8, 6, 3],
        cat,
        cat,
        dog,
    ]
    assert found["key"].nunique() == 5
    assert find_image_problems(found, ImageRules()) == []


@pytest.mark.slow
def test_images_at_an_address_are_read(tmp_path):
    code = (
        "import fsspec, sys\n"
        "from penstock.components.gates.image_gate import read_images\n"
        "fsspec.filesystem('gs').put(sys.argv[1], 'bucket/x', recursive=True)\n"
        "print(len(read_images('gs://bucket/x', ['train', 'eval'])))"
    )
    store = GoogleStore(tmp_path)
    try:
        done = subprocess.run(
            [sys.executable, "-c", code, write(tmp_path / "x", train=TRAIN, eval=EVAL)],
            env={**os.environ, **store.environment},
            capture_output=True,
            text=True,
        )
    finally:
        store.close()
    assert done.stdout == "5\n", done.stderr


def test_equal_images_within_and_between_splits_are_found(tmp_path):
    train = [*TRAIN, record(b"aa"), record(b"bb", 1, "dog"), record(b"bb", 1, "dog")]
    uri = write(tmp_path, train=train, eval=[*EVAL, record(b"aa"), record(b"cc", 1, "dog")])
    found = read_images(uri, ["train", "eval"])
    # Image aa occurs three times, bb three times in two classes, cc twice.
    assert find_image_problems(found, ImageRules()) == [
        "3 images are identical to others of another class; correct the labels",
        "2 images are in split 'train' and in split 'eval', so that evaluation would see what "
        "was trained on; split by `partition_feature` 'image/encoded'",
        "5 of 10 images are copies of others (50.0%); expected at most 5.0%",
    ]
    lax = ImageRules(max_shared_images=2, max_duplicate_share=0.5)
    assert len(find_image_problems(found, lax)) == 1  # one image in two classes is always a problem


def problems(tmp_path, train, rules=ImageRules(), evaluated=EVAL):  # noqa: B008  # frozen
    uri = write(tmp_path, train=[*TRAIN, *train], eval=evaluated)
    return find_image_problems(read_images(uri, ["train", "eval"]), rules)


def test_images_of_wrong_size_or_channels_are_problems(tmp_path):
    odd = [record(b"1", size=(1, 90)), record(b"2", size=(3, 3)), record(b"3", channels=4)]
    assert problems(tmp_path, odd, ImageRules(min_side_pixels=4)) == [
        "split 'train': 2 images are smaller than 4 pixels: 1x90 (1), 3x3 (1)",
        "split 'train': 1 images have 4 channels; expected 1 or 3",
    ]


def test_class_problems_are_listed(tmp_path):
    odd = [
        *(record(b"hen" + bytes([n]), 2, "hen") for n in range(4)),
        record(b"1", 1, "wolf"),
        record(b"2", None),
    ]
    rules = ImageRules(max_class_imbalance=1.5)
    assert problems(tmp_path, odd, rules) == [
        "split 'train': 1 images have no class; expected one for each",
        "class 1 has several names: 'dog', 'wolf'",
        "split 'train': the largest class has 4 images, the smallest 2; expected at most 1.5 "
        "times as many",
        "split 'eval': 1 classes have fewer than 1 images: 2 'hen' 0",
    ]


def test_single_class_and_empty_split_are_problems(tmp_path):
    uri = write(tmp_path, train=TRAIN[:2], eval=[])
    found = read_images(uri, ["train", "eval"])
    assert find_image_problems(found, ImageRules()) == [
        "split 'eval': no images; expected at least one",
        "all images are of class 0 'cat'; expected at least two",
    ]


def test_record_without_image_is_named(tmp_path):
    uri = write(tmp_path, train=[TRAIN[0], TRAIN[1], example(fare=[1.0])])
    with pytest.raises(DataError, match=r"data-00000-of-00002.gz: record 1 has no 'image/encoded'"):
        read_images(uri, ["train"])


def test_image_gate_counts_the_images_or_lists_all_problems(tmp_path):
    examples = Examples()
    examples.uri = write(tmp_path, train=TRAIN, eval=EVAL)
    examples.split_names = '["train", "eval"]'
    verdict = json.loads(ImageGate.test_call(examples=examples, options="{}")["verdict"])
    assert verdict == {"images": {"train": 3, "eval": 2}, "duplicates": 0}
    with pytest.raises(DataError) as error:
        ImageGate.test_call(examples=examples, options='{"channels": [3], "min_side_pixels": 5}')
    assert str(error.value) == (
        "the images are unfit to train on, 2 problems:\n"
        "  - split 'train': 1 images are smaller than 5 pixels: 4x4 (1)\n"
        "  - split 'train': 1 images have 1 channels; expected 3"
    )
