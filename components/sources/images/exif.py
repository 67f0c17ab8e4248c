"""The orientation of an image, from its EXIF block."""

import struct

_ORIENTATION = 0x0112
_SHORT = 3
UPRIGHT = 1


def orientation(exif: bytes) -> int:
    r"""The EXIF orientation, 1 (upright) to 8; 1 where the block has none or is damaged.

    Args:
        exif: A TIFF header and its first directory, with or without `Exif\0\0` before them.
    """
    tiff = exif.removeprefix(b"Exif\0\0")
    order = {b"II*\0": "<", b"MM\0*": ">"}.get(tiff[:4])
    if order is None:
        return UPRIGHT
    try:
        (directory,) = struct.unpack_from(f"{order}I", tiff, 4)
        (entries,) = struct.unpack_from(f"{order}H", tiff, directory)
        for at in range(directory + 2, directory + 2 + 12 * entries, 12):
            tag, kind, _, value = struct.unpack_from(f"{order}HHIH", tiff, at)
            if tag == _ORIENTATION:
                return value if kind == _SHORT and 1 <= value <= 8 else UPRIGHT
    except struct.error:
        pass
    return UPRIGHT
