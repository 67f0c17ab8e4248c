"""The frame around each record of a TFRecord file.

A record is (tensorflow.org/tutorials/load_data/tfrecord#tfrecords_format_details):

    uint64  length              little endian
    uint32  masked crc32c       of the 8 bytes of length
    bytes   data[length]
    uint32  masked crc32c       of data

with `mask(crc) = ((crc >> 15 | crc << 17) + 0xa282ead8) mod 2^32`. Records follow one
another without padding; the file has neither header nor footer nor index.
"""

import google_crc32c

HEADER_BYTES = 12
FOOTER_BYTES = 4

MASK_DELTA = 0xA282EAD8


def masked_crc(data: bytes) -> int:
    """The crc32c of `data`, masked as TFRecord stores it, within 0..2^32-1."""
    crc = google_crc32c.value(data)
    return ((crc >> 15 | crc << 17) + MASK_DELTA) & 0xFFFFFFFF
