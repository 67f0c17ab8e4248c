"""The contents of many files as one Arrow array."""

import numpy as np
import pyarrow as pa

from penstock.components.tfrecord.sharding import MIB

# A batch ends at 4 MiB. Memory is asked for once and given back whole, so that the next batch finds
# it mapped: to have the system clear it anew costs more than to fill it. Unused pages cost nothing.
_FIRST_BYTES = 8 * MIB


class Contents:
    """Values on their way into an Arrow array; each is copied once."""

    def __init__(self) -> None:
        self._data = np.empty(_FIRST_BYTES, np.uint8)
        self._ends = [0]

    def __len__(self) -> int:
        return len(self._ends) - 1

    @property
    def size(self) -> int:
        """Bytes of all values."""
        return self._ends[-1]

    def append(self, value: bytes) -> None:
        """Add a value; less than 2 GiB are in all."""
        start, end = self._ends[-1], self._ends[-1] + len(value)
        if end > len(self._data):
            data = np.empty(end, np.uint8)
            data[:start] = self._data[:start]
            self._data = data
        self._data[start:end] = np.frombuffer(value, np.uint8)
        self._ends.append(end)

    def array(self) -> pa.BinaryArray:
        """All values; none may be added afterwards."""
        buffers = [None, pa.py_buffer(np.array(self._ends, np.int32)), pa.py_buffer(self._data)]
        return pa.Array.from_buffers(pa.binary(), len(self), buffers)
