"""Image formats by extension, and descriptions of files that are not readable images."""

import os

from penstock.components.magic import format_of

# Image format by extension, formats that are rejected included.
_BY_EXTENSION = {
    **dict.fromkeys((".jpg", ".jpeg", ".jpe", ".jfif"), "JPEG"),
    **dict.fromkeys((".png", ".apng"), "PNG"),
    ".gif": "GIF",
    **dict.fromkeys((".bmp", ".dib"), "BMP"),
    ".webp": "WebP",
    **dict.fromkeys((".tif", ".tiff"), "TIFF"),
    **dict.fromkeys((".heic", ".heif"), "HEIC"),
    ".avif": "AVIF",
    ".svg": "SVG",
    **dict.fromkeys((".jp2", ".j2k", ".jpx"), "JPEG 2000"),
    ".psd": "PSD",
    ".ico": "ICO",
}
_MAGIC = (
    (b"II*\0", "TIFF"),
    (b"MM\0*", "TIFF"),
    (b"\0\0\0\x0cjP  ", "JPEG 2000"),
    (b"\xff\x4f\xff\x51", "JPEG 2000"),
    (b"8BPS", "PSD"),
    (b"\0\0\1\0", "ICO"),
)
# Brands of ISO media files that are images.
_BRANDS = {
    **dict.fromkeys((b"avif", b"avis"), "AVIF"),
    **dict.fromkeys((b"heic", b"heix", b"hevc", b"heim", b"heis", b"mif1", b"msf1"), "HEIC"),
}
_CUT_HEADERS = ((b"\xff\xd8", "JPEG"), (b"\x89PNG", "PNG"), (b"GIF8", "GIF"), (b"RIFF", "WebP"))
READABLE = "JPEG, PNG, GIF, BMP or WebP"


def format_by_extension(path: str) -> str | None:
    return _BY_EXTENSION.get(os.path.splitext(path)[1].lower())


def refusal(data: bytes) -> str:
    """Returns why bytes are rejected that do not begin like a readable image."""
    kind = next((name for magic, name in _MAGIC if data.startswith(magic)), None)
    if data[4:8] == b"ftyp":
        kind = _BRANDS.get(data[8:12])
    elif b"<svg" in data[:1024].lower():
        kind = "SVG"
    if kind:
        return f"is {kind}, which is not read; convert it to {READABLE}"
    for magic, name in _CUT_HEADERS:
        if data.startswith(magic):
            return f"truncated or damaged: begins as {name} does, but its header is not whole"
    if found := format_of(data[:512]):
        return f"not an image: looks like {found.name}; {found.advice}"
    return f"not an image: begins with {data[:40]!r}; expected {READABLE}"
