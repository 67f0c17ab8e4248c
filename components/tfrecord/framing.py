"""The frame around each record of a TFRecord file.

A record is (tensorflow.org/tutorials/load_data/tfrecord#tfrecords_format_details):

    uint64  length              little endian
    uint32  masked crc32c       of the 8 bytes of length
    bytes   data[length]
    uint32  masked crc32c       of data

with `mask(crc) = ((crc >> 15 | crc << 17) + 0xa282ead8) mod 2^32`. Records follow one
another without padding; the file has neither header nor footer nor index.
"""

import functools
import struct

import google_crc32c
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

HEADER_BYTES = 12
FOOTER_BYTES = 4

_MASK_DELTA = 0xA282EAD8


def masked_crc(data: bytes) -> int:
    """The crc32c of `data`, masked as TFRecord stores it, within 0..2^32-1."""
    crc = google_crc32c.value(data)
    return ((crc >> 15 | crc << 17) + _MASK_DELTA) & 0xFFFFFFFF


def frame_records(records: pa.BinaryArray) -> pa.BinaryArray:
    """The records with their frames, ready to be written one after the other.

    Args:
        records: Payloads, no nulls, less than 2 GiB in all.
    """
    lengths = pc.binary_length(records).to_numpy(zero_copy_only=False).astype("<u8")
    headers = pa.array([_header(n) for n in lengths.tolist()], pa.binary())
    crcs = np.fromiter(map(google_crc32c.value, _objects(records)), np.uint32, len(records))
    footers = ((crcs >> 15 | crcs << 17) + np.uint32(_MASK_DELTA)).astype("<u4")
    return pc.binary_join_element_wise(
        headers, records, _fixed_width(footers), pa.scalar(b"", pa.binary())
    )


@functools.lru_cache(maxsize=2**16)
def _header(length: int) -> bytes:
    size = struct.pack("<Q", length)
    return size + struct.pack("<I", masked_crc(size))


def _objects(records: pa.BinaryArray) -> np.ndarray:
    # Several times faster than to_pylist, which makes an Arrow scalar of each value first.
    return records.to_numpy(zero_copy_only=False)


def _fixed_width(words: np.ndarray) -> pa.BinaryArray:
    offsets = np.arange(0, 4 * len(words) + 1, 4, dtype=np.int32)
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(words)]
    return pa.Array.from_buffers(pa.binary(), len(words), buffers)
