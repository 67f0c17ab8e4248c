import struct
import zlib

import pytest

from penstock.components.sources.images.headers import UnfitFileError, orientation, probe
from penstock.components.sources.images.options import Images
from penstock.components.sources.images.pixels import store

EXIF_RIGHT = b"Exif\0\0MM\0*\0\0\0\x08\0\x01" + struct.pack(">HHIHH", 0x0112, 3, 1, 6, 0)


def reason(data, name="a", **options):
    with pytest.raises(UnfitFileError) as error:
        probe(data, name, Images(**options))
    return str(error.value)


def png_header(width, height, bits=8, colour=2):
    body = b"IHDR" + struct.pack(">IIBBBBB", width, height, bits, colour, 0, 0, 0)
    chunk = struct.pack(">I", 13) + body + struct.pack(">I", zlib.crc32(body))
    return b"\x89PNG\r\n\x1a\n" + chunk


def chunk(kind, body=b"", crc=None):
    crc = zlib.crc32(kind + body) if crc is None else crc
    return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", crc)


PIXELS = zlib.compress(b"\0" + bytes(12) + b"\0" + bytes(12))
IDAT, IEND = chunk(b"IDAT", PIXELS), chunk(b"IEND")


def png(*chunks, header=(8, 2, 0, 0, 0)):
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        (chunk(b"IHDR", struct.pack(">IIBBBBB", 4, 2, *header)), *chunks)
    )


@pytest.mark.parametrize("name", ["a.jpg", "a.JPEG", "a.jfif", "a", "a.1", "a.dat"])
def test_names_that_agree_or_promise_nothing(encoded, name):
    assert probe(encoded(), name, Images()).format == "JPEG"


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "is empty (0 bytes), expected an image; copy it again"),
        (b"no picture\nat all", "not an image: begins with b'no picture\\nat all'; expected JPEG, "
         "PNG, GIF, BMP or WebP"),
        (b"II*\0abc", "is TIFF, which is not read; convert it to JPEG, PNG, GIF, BMP or WebP"),
        (b"\0\0\0\x18ftypheic\0\0", "is HEIC, which is not read; convert it to JPEG, PNG, GIF, BMP "
         "or WebP"),
        (b"\0\0\0\x18ftypavif\0\0", "is AVIF, which is not read; convert it to JPEG, PNG, GIF, BMP "
         "or WebP"),
        (b'<?xml version="1.0"?>\n<svg xmlns="x">', "is SVG, which is not read; convert it to JPEG,"
         " PNG, GIF, BMP or WebP"),
        (b"version https://git-lfs.github.com/spec/v1", "not an image: looks like a Git LFS "
         "pointer; fetch the file: git lfs pull"),
        (b"\x89PNG\r\n", "truncated or damaged: begins as PNG does, but its header is not whole"),
        (b"\x01\x02\x00\x03", "not an image: begins with b'\\x01\\x02\\x00\\x03'; expected JPEG, "
         "PNG, GIF, BMP or WebP"),
    ],
)  # fmt: skip
def test_what_is_no_image_says_what_it_looks_like(data, message):
    assert reason(data) == message


def test_a_bomb_is_refused_by_its_header():
    assert reason(png_header(60_000, 60_000)) == (
        "60000x60000 is 3,600,000,000 pixels, more than `max_pixels` 89,478,485; not decoded"
    )
    assert reason(png_header(11, 10), max_pixels=100).startswith("11x10 is 110 pixels")
    assert reason(png_header(0, 10)) == "damaged: its header says 0x10 pixels"


def test_headers_that_no_decoder_reads(encoded):
    assert reason(png_header(2, 2, bits=3) + IEND) == (
        "damaged PNG (its header cannot be read); copy or write it again"
    )
    twelve_bits = encoded().replace(b"\xff\xc0\x00\x11\x08", b"\xff\xc0\x00\x11\x0c")
    assert reason(twelve_bits) == (
        "JPEG of 3 x 12 bits a pixel, which is not read; convert it to 8 bits of gray or RGB"
    )


@pytest.mark.parametrize("options", [{}, {"progressive": True}, {"exif": EXIF_RIGHT}])
def test_each_cut_of_a_jpeg_is_found(encoded, options):
    data = encoded(**options)
    for length in range(4, len(data)):
        assert reason(data[:length]).startswith("truncated")


@pytest.mark.parametrize("mode", ["RGB", "P", "RGBA"])
def test_each_cut_of_a_png_is_found(encoded, mode):
    data = encoded("PNG", mode=mode)
    for length in range(8, len(data)):
        assert "truncated" in reason(data[:length]) or "damaged" in reason(data[:length])


def test_a_thumbnail_does_not_hide_a_cut(encoded):
    body = b"Exif\0\0MM\0*\0\0\0\x08" + encoded(width=8, height=8)
    data = encoded()
    whole = data[:2] + b"\xff\xe1" + struct.pack(">H", len(body) + 2) + body + data[2:]
    assert probe(whole, "a", Images()).is_plain
    assert reason(whole[:-2]) == ("truncated JPEG: the mark of its end is missing; copy it again")


def test_what_a_camera_appends_is_no_cut(encoded):
    assert probe(encoded() + b"\0" * 1000, "a", Images()).is_plain


@pytest.mark.parametrize("mark", [b"MM\0*", b"II*\0"])
def test_orientation_in_both_orders_of_bytes(mark):
    order = ">" if mark[:1] == b"M" else "<"
    entries = struct.pack(f"{order}HHIHH", 0x010F, 2, 1, 0, 0)
    entries += struct.pack(f"{order}HHIHH", 0x0112, 3, 1, 8, 0)
    tiff = mark + struct.pack(f"{order}IH", 8, 2) + entries
    assert orientation(tiff) == orientation(b"Exif\0\0" + tiff) == 8


@pytest.mark.parametrize(
    "exif",
    [
        b"",
        b"Exif\0\0",
        b"MM\0*\xff\xff\xff\xff",
        b"MM\0*\0\0\0\x08\xff\xff",
        EXIF_RIGHT[:-4],
        EXIF_RIGHT.replace(b"\0\x06\0\0", b"\0\x09\0\0"),
    ],
)
def test_damaged_exif_is_upright(exif):
    assert orientation(exif) == 1


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (png(chunk(b"IDAT", PIXELS, 1), IEND), "damaged PNG (broken PNG file (bad header checksum"),
        (png(IDAT, chunk(b"IEND", crc=1)), "truncated PNG: its last chunk is missing"),
        (png(chunk(b"IHDR"), IDAT, IEND), "damaged PNG ("),
    ],
)
def test_damage_of_a_png_is_found_by_its_checksums(data, why):
    assert reason(data).startswith(why)


def test_each_changed_byte_of_a_png_is_found(encoded):
    data = encoded("PNG")
    for at in range(8, len(data)):
        changed = data[:at] + bytes([data[at] ^ 0x55]) + data[at + 1 :]
        assert reason(changed)


@pytest.mark.parametrize(
    "pixels",
    [PIXELS[:-4], zlib.compress(bytes(25)), zlib.compress(b"\5" + bytes(25)), b"x\x9c\xff"],
)
def test_pixels_are_decompressed_where_decoding_is_asked_for(pixels):
    data = png(chunk(b"IDAT", pixels), IEND)
    assert probe(data, "a", Images()).is_plain
    with pytest.raises(UnfitFileError, match=r"^damaged PNG \(.*; copy or write it again$"):
        store(data, "a", Images(verify="decode"))


def test_what_follows_the_pixels_of_a_png_counts_as_before_them():
    assert probe(png(IDAT, chunk(b"PLTE", b"rgb"), IEND) + b"junk", "a", Images()).is_plain
    assert not probe(png(IDAT, chunk(b"eXIf", EXIF_RIGHT[6:]), IEND), "a", Images()).is_plain


def test_a_png_whose_chunks_libpng_does_not_read_in_their_order_is_written_again():
    palette = chunk(b"PLTE", b"rgb")
    assert not probe(png(palette, palette, IDAT, IEND), "a", Images()).is_plain
    assert not probe(png(IDAT, chunk(b"eXIf", b""), IDAT, IEND), "a", Images()).is_plain
