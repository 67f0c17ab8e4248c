"""Framing of records in a TFRecord file.

A record has these fields (tensorflow.org/tutorials/load_data/tfrecord#tfrecords_format_details):

    uint64  length              little endian
    uint32  masked crc32c       of the 8 bytes of length
    bytes   data[length]
    uint32  masked crc32c       of data

with `mask(crc) = ((crc >> 15 | crc << 17) + 0xa282ead8) mod 2^32`. Records follow one
another without padding; the file has neither header nor footer nor index.
"""

import struct
from typing import Any

import google_crc32c
import numpy as np
import numpy.typing as npt

HEADER_BYTES = 12
FOOTER_BYTES = 4

MASK_DELTA = 0xA282EAD8
_LENGTH = struct.Struct("<Q")


def masked_crc(data: bytes) -> int:
    """Returns the masked crc32c of `data`, within 0..2^32-1."""
    crc = google_crc32c.value(data)
    return ((crc >> 15 | crc << 17) + MASK_DELTA) & 0xFFFFFFFF


def payload_bounds(data: Any) -> tuple[npt.NDArray[np.int64], bool]:
    """Finds the payloads of a file's records by their lengths; does not read checksums.

    Returns (begin, end) of each payload, int64 [records, 2], and whether the last record ends where
    the uncompressed file ends.
    """
    bounds = []
    start = 0
    while start + HEADER_BYTES <= len(data):
        begin = start + HEADER_BYTES
        end = begin + _LENGTH.unpack_from(data, start)[0]
        bounds.append((begin, end))
        start = end + FOOTER_BYTES
    return np.array(bounds, np.int64).reshape(-1, 2), start == len(data)
