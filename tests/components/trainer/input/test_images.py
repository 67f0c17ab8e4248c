import itertools

import numpy as np
import pytest
import tensorflow as tf
from row_files import example, write_shards

from penstock.components.errors import DataError
from penstock.components.trainer.input import common
from penstock.components.trainer.input.image_decode import StoredImages, decode_whole
from penstock.components.trainer.input.input import Input
from penstock.components.trainer.input.options import ImageInputOptions
from penstock.components.trainer.serving import serve_images

COUNT = 23


def record(pixels, label, kind="PNG"):
    """An Example of uint8 [height, width, channels] pixels."""
    encoded = pixels.tobytes() if kind == "RAW" else tf.io.encode_png(pixels).numpy()
    height, width, channels = pixels.shape
    feature = {
        "encoded": encoded, "format": kind.encode(), "height": height, "width": width,
        "channels": channels, "class/label": label,
    }  # fmt: skip
    return example(**{f"image/{name}": [value] for name, value in feature.items()})


def write(directory, records, shards=3):
    """Writes shards without a manifest; returns their patterns."""
    return [f"{write_shards(directory, records, shards=shards)}/Split-train/*"]


def plain(number, size=(4, 6), channels=1):
    return np.full((*size, channels), 10 * number, np.uint8)


@pytest.fixture(scope="module")
def source(tmp_path_factory):
    """The pattern of shards of images; image `n` has the label n and the gray value 10 n."""
    directory = tmp_path_factory.mktemp("images")
    return write(directory, [record(plain(number), number) for number in range(COUNT)])


def options(**changes):
    return ImageInputOptions(**{"batch_size": 5, "height": 2, "width": 2, **changes})


def labels_of(dataset, batches=None):
    """The labels of each batch; also checks that each image has the pixels of its label."""
    found = []
    for features, label in itertools.islice(dataset, batches):
        image = features["image"]
        assert image.dtype == tf.uint8
        assert image.shape[1:] == (2, 2, 3)
        expected = np.broadcast_to(10 * label.numpy()[:, None, None, None], image.shape)
        np.testing.assert_array_equal(image, expected)
        found.append(label.numpy().tolist())
    return found


def test_fewer_images_than_a_batch_train(tmp_path):
    source = write(tmp_path, [record(plain(number), number) for number in range(2)], shards=2)
    drawn = list(itertools.chain(*labels_of(Input.images(source, options=options()).train(), 2)))
    assert [sorted(drawn[i : i + 2]) for i in range(0, 10, 2)] == [[0, 1]] * 5


def test_function_of_the_user_may_branch_on_tensors(source):
    def halved(label):
        if tf.shape(label)[0] > 300:
            return label
        return label // 2

    data = Input.images(source, options=options(), label_fn=halved).train()
    features, label = next(iter(data))
    np.testing.assert_array_equal(features["image"][:, 0, 0, 0].numpy() // 20, label)


def test_several_labels_are_a_mapping_by_name(source):
    labels = ["image/class/label", "image/height"]
    data = Input.images(source, options=options(), label=labels).eval()
    _, found = next(iter(data))
    assert sorted(found) == labels
    assert found["image/height"].numpy().tolist() == [4] * 5


ROWS = np.array([[0, 100, 200, 250], [50, 150, 250, 0]], np.uint8)[..., None]


@pytest.mark.parametrize(
    ("fit", "expected"),
    [("crop", [[100, 200], [150, 250]]), ("stretch", [[50, 225], [100, 125]])],
)
@pytest.mark.parametrize("kind", ["PNG", "RAW"])
def test_a_whole_image_is_cut_to_its_middle_or_stretched(tmp_path, kind, fit, expected):
    source = write(tmp_path, [record(ROWS, 0, kind)], shards=1)
    for channels in (1, 3):
        chosen = options(fit=fit, channels=channels)
        [(features, _)] = Input.images(source, options=chosen).eval()
        image = features["image"].numpy()[0]
        np.testing.assert_array_equal(image, np.repeat(np.array(expected)[..., None], channels, -1))


def test_images_of_the_wanted_size_are_taken_as_they_are(tmp_path):
    noise = np.random.default_rng(0).integers(0, 256, (2, 2, 3), np.uint8)
    other = np.repeat(ROWS, 3, axis=-1)
    source = write(tmp_path, [record(noise, 0, "RAW"), record(other, 1, "RAW")], shards=1)
    sizes = ("image/height", "image/width")
    stored = StoredImages("image/encoded", 3, sizes, (2, 2))
    assert Input.images(source, options=options()).stored() == stored
    [(features, _)] = Input.images(source, options=options()).eval()
    np.testing.assert_array_equal(features["image"][0], noise)
    np.testing.assert_array_equal(features["image"][1][..., 0], [[100, 200], [150, 250]])


def test_colours_become_gray(tmp_path):
    pixels = np.full((2, 2, 3), (255, 0, 0), np.uint8)
    for kind in ("PNG", "RAW"):
        source = write(tmp_path / kind, [record(pixels, 0, kind)], shards=1)
        [(features, _)] = Input.images(source, options=options(channels=1)).eval()
        assert np.unique(features["image"]).tolist() == [76]  # 0.299 * 255


STRIPES = np.tile(np.array([0, 255], np.uint8), (64, 40))[..., None]  # 64 x 80


def test_a_large_jpeg_is_decoded_to_means_of_its_pixels(tmp_path):
    picture = tf.io.encode_jpeg(STRIPES, quality=100).numpy()
    source = write(tmp_path, [example(picture=[picture], kind=[1])], shards=1)
    found = {}
    for scaled in (True, False):
        chosen = options(
            height=16, width=16, fit="stretch", batch_size=1, scaled_decode=scaled, seed=1
        )
        data = Input.images(source, options=chosen, image="picture", label="kind").train()
        found[scaled] = next(iter(data))[0]["image"].numpy()[0, ..., 0]
    assert found[False].std() > 20  # about every fifth column is sampled, none are averaged
    assert found[True].std() < 10
    assert abs(found[True].mean() - 127) < 5


@pytest.mark.parametrize("scaled", [True, False])
def test_serving_decodes_what_evaluation_does(scaled):
    rng = np.random.default_rng(0)
    pixels = rng.integers(0, 256, (37, 50, 3), np.uint8)
    chosen = options(height=24, width=16, scaled_decode=scaled)

    def pixels_of(images, training):
        return tf.reshape(images["image"], [1, -1])

    serve = serve_images(pixels_of, chosen, ["-"] * (24 * 16 * 3))
    large = rng.integers(0, 256, (130, 190, 3), np.uint8)
    encode = tf.io.encode_jpeg
    for encoded in (encode(pixels), encode(large), tf.io.encode_png(pixels)):
        whole = decode_whole({"image/encoded": encoded}, stored=StoredImages(), options=chosen)
        found = serve(tf.constant([encoded.numpy()]))["probabilities"]
        np.testing.assert_array_equal(found[0], np.ravel(whole))


def foreign(number, encoded):
    """A record with the feature names of TFDS and many converters."""
    return example(image=[encoded], label=[number])


@pytest.mark.parametrize(("first", "size"), [((4, 6), (4, 6)), ((2, 2), (2, 2))])
def test_images_of_others_are_read_by_the_names_of_their_features(tmp_path, first, size):
    sizes = [first] + [(5, 3)] * 4
    images = [tf.io.encode_png(plain(n, one, 3)).numpy() for n, one in enumerate(sizes)]
    source = write(tmp_path, [foreign(n, one) for n, one in enumerate(images)], shards=1)
    named = {"image": "image", "label": "label"}
    stored = StoredImages("image", first_size=size)
    assert Input.images(source, options=options(), **named).stored() == stored
    data = Input.images(source, options=options(), **named).eval()
    assert labels_of(data) == [[0, 1, 2, 3, 4]]
    batches = labels_of(Input.images(source, options=options(seed=1), **named).train(), 2)
    assert [sorted(batch) for batch in batches] == [[0, 1, 2, 3, 4]] * 2


@pytest.mark.parametrize(
    ("named", "reason"),
    [
        ({}, r"\(it has image, label\)"),
        ({"image": "image", "label": "class"}, r"\(it has image, label\)"),
        ({"image": "label", "label": "image"}, r"\(.*[Dd]ata type.*\)"),
        ({"image": "image", "label": "label"}, r"\(.*Unknown image file format.*\)"),
    ],
)
def test_a_record_without_the_named_features_is_refused(tmp_path, named, reason):
    source = write(tmp_path, [foreign(0, b"no image")], shards=1)
    expected = (
        rf"-00000-of-00001.gz: the first record is not an image with a label {reason}; name "
        "their features, as in image='image' and label='label', or write it with "
    )
    with pytest.raises(DataError, match=expected):
        Input.images(source, options=options(), **named).eval()


@pytest.mark.parametrize(
    ("features", "channels", "expected"),
    [
        ({"image": [bytes([1, 2, 3, 4])]}, 1, [[[1], [2]], [[3], [4]]]),
        ({"image": [bytes([1, 2, 3, 4])]}, 3, [[[1] * 3, [2] * 3], [[3] * 3, [4] * 3]]),
        (
            {"image": [bytes(range(8))], "height": [4], "width": [2]},
            1,
            [[[2], [3]], [[4], [5]]],
        ),
    ],
)
def test_pixels_are_read_as_they_are(tmp_path, features, channels, expected):
    source = write(tmp_path, [example(**features, label=[1])], shards=1)
    chosen = options(batch_size=1, channels=channels)
    [(found, label)] = Input.images(source, options=chosen, image="image", label="label").eval()
    assert found["image"].dtype == tf.uint8
    assert found["image"].numpy()[0].tolist() == expected
    assert label.numpy().tolist() == [1]


def test_pixels_of_another_number_are_refused(tmp_path):
    source = write(tmp_path, [example(image=[bytes(5)], label=[1])], shards=1)
    with pytest.raises(DataError, match="image has 5 bytes, neither 2x2 uint8 pixels of 1 or 3 ch"):
        Input.images(source, options=options(), image="image", label="label").eval()


def test_a_container_has_no_more_memory_than_its_limit(monkeypatch):
    import psutil

    rss_mib = psutil.Process().memory_info().rss / 2**20
    monkeypatch.setattr(common, "memory_limit_mib", lambda: rss_mib + 100)
    assert 0 < common.free_memory_bytes() <= 101 * 2**20
