import base64
import io

import pytest
from PIL import Image

from penstock.pipelines.reporting.histograms import Bar
from penstock.pipelines.reporting.image_facts import gather_images


def png(shade, size=(8, 8)):
    out = io.BytesIO()
    Image.new("L", size, shade).save(out, "PNG")
    return out.getvalue()


@pytest.fixture
def images(runs, tmp_path):
    """Examples with four images of train, two of them equal, and two of eval, one also in train."""

    def record(image, label):
        return runs.example(image__encoded=image, image__class__label=label)

    train = [record(png(0), 0), record(png(1), 1), record(png(2, (9, 8)), 10), record(png(0), 0)]
    evaluation = [record(png(1), 1), record(png(200), 1)]
    runs.write_records(tmp_path / "examples/Split-train/a", train)
    runs.write_records(tmp_path / "examples/Split-eval/a", evaluation)
    return tmp_path / "examples"


def test_sizes_and_classes(images):
    facts = gather_images(str(images))
    assert facts.looked_at == {"train": 4, "eval": 2}
    assert facts.sizes == [Bar("PNG 8x8", 5), Bar("PNG 9x8", 1)]
    assert facts.classes == {
        "train": [Bar("0", 2), Bar("1", 1), Bar("10", 1)],
        "eval": [Bar("0", 0), Bar("1", 2), Bar("10", 0)],
    }


def test_samples_are_of_all_classes_in_turn_and_shown_as_they_are(images):
    samples = gather_images(str(images)).samples
    assert [s.label for s in samples] == ["0", "1", "10", "0", "1", "1"]
    assert samples[0].text == "PNG 8x8, Split-train/a, record 0"
    head, data = samples[0].source.split(",")
    assert head == "data:image/png;base64"
    assert base64.b64decode(data) == png(0)


def test_a_large_image_is_made_smaller_and_what_is_none_is_said(runs, tmp_path):
    noise = Image.effect_noise((400, 300), 90).convert("RGB")
    out = io.BytesIO()
    noise.save(out, "PNG")
    rows = [
        runs.example(image__encoded=out.getvalue(), image__class__text=b"<cat>"),
        runs.example(image__encoded=b"not an image"),
    ]
    runs.write_records(tmp_path / "examples/Split-train/a", rows)
    facts = gather_images(str(tmp_path / "examples"))
    large, none = facts.samples
    assert (large.label, none.label) == ("<cat>", "no label")
    small = Image.open(io.BytesIO(base64.b64decode(large.source.split(",")[1])))
    assert small.size == (96, 72)
    assert none.source == ""
    assert facts.sizes[1] == Bar("no image that is known here", 1)


def test_records_without_images_have_no_section(runs, tmp_path):
    runs.write_records(tmp_path / "examples/Split-train/a", [runs.example(fare=1.0)])
    assert gather_images(str(tmp_path / "examples")) is None
