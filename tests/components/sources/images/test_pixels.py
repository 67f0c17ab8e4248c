import io
import struct

import numpy as np
import pytest
from PIL import Image

from penstock.components.sources.images.options import Images
from penstock.components.sources.images.pixels import store
from penstock.components.sources.whole_files import UnfitFileError

RED, GREEN, BLUE, WHITE = "red", "green", "blue", "white"
COLOURS = {RED: (250, 10, 10), GREEN: (10, 250, 10), BLUE: (10, 10, 250), WHITE: (250, 250, 250)}


def exif(number):
    return (
        b"Exif\0\0MM\0*\0\0\0\x08\0\x01" + struct.pack(">HHIHH", 0x0112, 3, 1, number, 0) + bytes(4)
    )


def pixels(stored):
    """Pixels of a stored image, uint8 [height, width, channels]."""
    shape = (stored.height, stored.width, stored.channels)
    if stored.format == "RAW":
        return np.frombuffer(stored.encoded, np.uint8).reshape(shape)
    image = Image.open(io.BytesIO(stored.encoded))
    assert (image.format, image.size) == (stored.format, (stored.width, stored.height))
    assert "exif" not in image.info or image.getexif().get(0x0112, 1) == 1
    return np.asarray(image.convert("RGB" if stored.channels == 3 else "L")).reshape(shape)


def quarters(stored):
    """The colours of the four quarters, row by row from the top left."""
    array = pixels(stored)
    height, width, _ = array.shape
    found = [array[height * y // 4, width * x // 4] for y in (1, 3) for x in (1, 3)]
    return [
        min(COLOURS, key=lambda name: np.abs(np.subtract(COLOURS[name], one, dtype=int)).sum())
        for one in found
    ]


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"mode": "L"},
        {"kind": "PNG"},
        {"kind": "PNG", "mode": "P"},
        {"kind": "PNG", "mode": "1"},
        {"kind": "PNG", "mode": "I;16"},
        {"progressive": True},
    ],
)
def test_plain_files_are_stored_as_they_are(encoded, options):
    data = encoded(**options)
    stored = store(data, "a", Images())
    channels = 1 if options.get("mode") in ("L", "1", "I;16") else 3
    assert stored == (data, options.get("kind", "JPEG"), 16, 32, channels)


@pytest.mark.parametrize("kind", ["JPEG", "PNG", "WebP"])
@pytest.mark.parametrize(
    ("number", "turned"),
    [
        (1, [RED, GREEN, BLUE, WHITE]),
        (2, [GREEN, RED, WHITE, BLUE]),
        (3, [WHITE, BLUE, GREEN, RED]),
        (4, [BLUE, WHITE, RED, GREEN]),
        (5, [RED, BLUE, GREEN, WHITE]),
        (6, [BLUE, RED, WHITE, GREEN]),
        (7, [WHITE, GREEN, BLUE, RED]),
        (8, [GREEN, WHITE, RED, BLUE]),
    ],
)
def test_every_layout_is_upright(encoded, kind, number, turned):
    data = encoded(kind, exif=exif(number))
    size = (32, 16) if number > 4 else (16, 32)
    for options in ({}, {"layout": "decoded"}):
        stored = store(data, "a", Images(**options))
        assert (stored.height, stored.width, stored.channels) == (*size, 3)
        assert quarters(stored) == turned
    resized = store(data, "a", Images(layout="resized", size=24))
    assert (resized.format, resized.height, resized.width) == ("JPEG", 24, 24)
    assert quarters(resized) == turned


@pytest.mark.parametrize(
    ("options", "kind", "channels"),
    [
        ({"mode": "CMYK"}, "JPEG", 3),
        ({"kind": "PNG", "mode": "RGBA"}, "PNG", 3),
        ({"kind": "PNG", "mode": "LA"}, "PNG", 1),
        ({"kind": "PNG", "transparency": (1, 2, 3)}, "PNG", 3),
        ({"kind": "GIF", "mode": "P"}, "PNG", 3),
        ({"kind": "GIF", "mode": "L"}, "PNG", 3),
        ({"kind": "BMP"}, "PNG", 3),
        ({"kind": "BMP", "mode": "P"}, "PNG", 3),
        ({"kind": "WebP", "lossless": True}, "PNG", 3),
    ],
)
def test_what_tensorflow_does_not_read_alike_becomes_jpeg_or_png(encoded, options, kind, channels):
    data = encoded(**options)
    stored = store(data, "a", Images())
    assert stored.encoded != data
    assert (stored.format, stored.height, stored.width, stored.channels) == (kind, 16, 32, channels)
    if options.get("mode") not in ("L", "LA"):
        assert quarters(stored) == [RED, GREEN, BLUE, WHITE]
    decoded = store(data, "a", Images(layout="decoded"))
    assert decoded.channels == 3
    assert len(decoded.encoded) == 16 * 32 * 3


@pytest.mark.parametrize(
    ("alpha", "expected"),
    [("white", (255, 127, 127)), ("black", (128, 0, 0)), ("drop", (255, 0, 0))],
)
def test_alpha_by_policy(alpha, expected):
    buffer = io.BytesIO()
    Image.new("RGBA", (4, 4), (255, 0, 0, 128)).save(buffer, "PNG")
    for layout in ("bytes", "decoded"):
        stored = store(buffer.getvalue(), "a", Images(alpha=alpha, layout=layout))
        assert tuple(pixels(stored)[0, 0]) == expected


def test_a_transparent_colour_of_a_palette_is_alpha():
    image = Image.new("P", (4, 4), 1)
    image.putpalette([0, 0, 0, 0, 0, 255])
    buffer = io.BytesIO()
    image.save(buffer, "PNG", transparency=1)
    assert tuple(pixels(store(buffer.getvalue(), "a", Images()))[0, 0]) == (255, 255, 255)


def test_of_sixteen_bits_the_upper_eight_are_kept():
    buffer = io.BytesIO()
    Image.fromarray(np.array([[0, 255, 256, 65535]], np.uint16)).save(buffer, "PNG")
    stored = store(buffer.getvalue(), "a", Images(layout="decoded", channels=1))
    assert list(stored.encoded) == [0, 0, 1, 255]


def test_of_an_animation_the_first_frame_counts(picture):
    frames = [picture(), Image.new("RGB", (32, 16), (250, 10, 10))]
    for kind in ("GIF", "WebP", "PNG"):
        buffer = io.BytesIO()
        frames[0].save(buffer, kind, save_all=True, append_images=frames[1:], duration=50)
        for layout in ("bytes", "decoded"):
            stored = store(buffer.getvalue(), "a", Images(layout=layout))
            assert quarters(stored) == [RED, GREEN, BLUE, WHITE]


@pytest.mark.parametrize(
    ("fit", "size", "shown"),
    [
        ("stretch", (8, 8), [RED, GREEN, BLUE, WHITE]),
        ("crop", (8, 8), [RED, GREEN, BLUE, WHITE]),
        ("shortest", (8, 16), [RED, GREEN, BLUE, WHITE]),
        ("pad", (8, 8), None),
    ],
)
def test_fits(encoded, fit, size, shown):
    stored = store(encoded("PNG"), "a", Images(layout="decoded", size=8, fit=fit))
    assert (stored.height, stored.width) == size
    if shown:
        assert quarters(stored) == shown
    else:
        array = pixels(stored)
        assert array[:2].max() == array[-2:].max() == 0
        assert np.abs(np.subtract(COLOURS[RED], array[2, 0], dtype=int)).max() < 8


def test_a_large_jpeg_made_small_is_the_same_picture(encoded):
    data = encoded(width=1600, height=1200)
    stored = store(data, "a", Images(layout="decoded", size=20))
    assert quarters(stored) == [RED, GREEN, BLUE, WHITE]


def test_resized_as_png_loses_nothing(encoded):
    options = {"size": 8, "fit": "stretch"}
    png = store(encoded("PNG"), "a", Images(layout="resized", encoding="png", **options))
    raw = store(encoded("PNG"), "a", Images(layout="decoded", **options))
    assert png.format == "PNG"
    assert (pixels(png) == pixels(raw)).all()


def test_gray_where_one_channel_is_asked_for(encoded):
    stored = store(encoded("PNG"), "a", Images(layout="decoded", channels=1))
    assert (stored.channels, len(stored.encoded)) == (1, 16 * 32)
    resized = store(encoded(), "a", Images(layout="resized", size=8, channels=1))
    assert pixels(resized).shape == (8, 8, 1)


@pytest.mark.parametrize("kind", ["GIF", "BMP", "WebP"])
def test_cut_files_of_other_kinds_are_found_by_decoding(encoded, kind):
    data = encoded(kind, mode="P" if kind == "GIF" else "RGB")
    with pytest.raises(UnfitFileError, match=rf"damaged {kind} \("):
        store(data[: len(data) // 2], "a", Images())


@pytest.mark.parametrize(
    ("width", "height", "size", "reason"),
    [
        (5000, 2, 500, "1250000x500 is 625,000,000 pixels, more than"),
        (70_000, 1, 1, "a JPEG at most 65,500 a side; set `encoding='png'`"),
    ],
)
def test_a_strip_is_not_enlarged_beyond_all_bounds(width, height, size, reason):
    buffer = io.BytesIO()
    Image.new("L", (width, height)).save(buffer, "PNG")
    with pytest.raises(UnfitFileError, match=reason):
        store(buffer.getvalue(), "a", Images(layout="resized", size=size, fit="shortest"))


@pytest.mark.parametrize(
    "options",
    [
        {"exif": exif(6)},
        {"mode": "L"},
        {"mode": "CMYK"},
        {"kind": "PNG", "mode": "P"},
        {"kind": "PNG", "mode": "RGBA"},
        {"kind": "PNG", "mode": "I;16"},
        {"kind": "GIF", "mode": "P"},
        {"kind": "BMP", "mode": "1"},
        {"kind": "WebP", "lossless": True},
    ],
)
def test_tensorflow_decodes_stored_bytes_to_what_is_stored_decoded(encoded, options):
    import tensorflow as tf

    data = encoded(**options)
    as_bytes = store(data, "a", Images())
    image = tf.io.decode_image(as_bytes.encoded, channels=3, expand_animations=False).numpy()
    decoded = pixels(store(data, "a", Images(layout="decoded")))
    assert image.shape == decoded.shape
    # Pixels of a JPEG that was encoded again differ slightly.
    assert np.abs(image.astype(int) - decoded).mean() < (8 if as_bytes.format == "JPEG" else 0.01)
    own = tf.io.decode_image(as_bytes.encoded, expand_animations=False)
    assert own.shape[-1] == as_bytes.channels
