import io

import pytest
from PIL import Image

from penstock.components.tfrecord.image_header import image_header


def encoded(kind, size=(31, 17), mode="RGB", **options):
    buffer = io.BytesIO()
    Image.new(mode, size, 1).save(buffer, kind, **options)
    return buffer.getvalue()


@pytest.mark.parametrize(
    ("kind", "options"),
    [
        ("JPEG", {}),
        ("JPEG", {"progressive": True, "mode": "L"}),
        ("JPEG", {"mode": "CMYK", "comment": b"x" * 3000}),
        ("PNG", {}),
        ("PNG", {"mode": "RGBA"}),
        ("GIF", {"mode": "P"}),
        ("BMP", {}),
        ("WebP", {}),
        ("WebP", {"lossless": True}),
        ("WebP", {"mode": "RGBA", "exif": b"Exif\0\0MM\0*\0\0\0\x08\0\0"}),
    ],
)
def test_format_and_size_as_pillow_writes_them(kind, options):
    header = image_header(encoded(kind, **options))
    assert header == (kind, 31, 17)
    assert str(header) == f"{kind} 31x17"


@pytest.mark.parametrize("kind", ["JPEG", "PNG", "GIF", "BMP", "WebP"])
def test_a_cut_header_is_no_image(kind):
    data = encoded(kind, mode="P" if kind == "GIF" else "RGB")
    whole = image_header(data)
    for length in range(len(data)):
        assert image_header(data[:length]) in (None, whole)
    assert image_header(data[:9]) is None


@pytest.mark.parametrize("data", [b"", b"BMW Munich, a car that is no bitmap", b"RIFF1234WAVE"])
def test_other_bytes_are_no_image(data):
    assert image_header(data) is None
