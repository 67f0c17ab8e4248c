"""Shared code of the image tests: makes real image files, and reads their rows as mappings."""

import io

import numpy as np
import pytest
from PIL import Image

from penstock.components.sources.images.options import Images
from penstock.components.sources.open import open_source


@pytest.fixture(scope="session")
def picture():
    """A function that makes a picture of four quarters in different colours, to show rotations."""

    def make(width=32, height=16, mode="RGB"):
        pixels = np.full((height, width, 3), 250, np.uint8)
        pixels[: height // 2, : width // 2] = (250, 10, 10)
        pixels[: height // 2, width // 2 :] = (10, 250, 10)
        pixels[height // 2 :, : width // 2] = (10, 10, 250)
        return Image.fromarray(pixels).convert(mode)

    return make


@pytest.fixture(scope="session")
def encoded(picture):
    """A function that makes the bytes of an image file with a picture of four quarters."""

    def encode(kind="JPEG", width=32, height=16, mode="RGB", **options):
        buffer = io.BytesIO()
        picture(width, height, mode).save(buffer, kind, **options)
        return buffer.getvalue()

    return encode


@pytest.fixture
def zoo(put, encoded):
    """A folder of 40 images in two classes; no two have the same size or the same pixels."""
    for number in range(40):
        name = f"{'cat' if number < 20 else 'dog'}/{number:02}.jpg"
        root = put(name, encoded(width=20 + number))
    return root


@pytest.fixture
def read_images(read_out, tmp_path):
    """A function that reads images as mappings, sorted by name, with the rejected rows as text."""

    def read(inputs, parts=2, **options):
        source = open_source(str(inputs), Images(**options))
        out = read_out(source, parts)
        names = [column.name for column in source.columns]
        rows = [dict(zip(names, row, strict=True)) for row in out.rows]
        errors = sorted(str(row).replace(f"{tmp_path}/", "") for row in out.rejected)
        return sorted(rows, key=lambda row: row["image/filename"]), errors

    return read
