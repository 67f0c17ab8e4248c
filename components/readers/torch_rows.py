"""Shuffled rows for PyTorch's DataLoader; reading can resume at any batch."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from penstock.components.errors import UsageError
from penstock.components.readers.rows import Rows
from penstock.components.tfrecord.sharding import SHUFFLE_WINDOW_ROWS

try:
    from torch.utils.data import IterableDataset, get_worker_info
except ImportError:  # TorchRows raises an error without PyTorch
    IterableDataset, get_worker_info = object, None


class TorchRows(IterableDataset):
    """Shuffled batches of rows, for `DataLoader(TorchRows(...), batch_size=None)`.

    A batch is a dict from column names to arrays of the type in which the column is stored: int64,
    float32, int32 for ids and uint8 for pixels. The loader turns numbers into tensors; byte
    strings and lists of any length stay NumPy arrays of objects. Batches and their order equal
    those of `Rows.batches` with the same options, for any `num_workers` of the loader; each pass
    has each row once.

    Args:
        rows: Rows to read.
        batch_size: Number of rows per batch.
        seed: Seed of the order.
        start: Number of batches that were already read.
        worker: Index of this process in a distributed training, from 0.
        workers: Number of these processes, which divide the rows equally.
        shuffle_window_rows: Number of rows that are permuted together.
        epochs: Number of passes; the last batch of the last pass may be short. With None, the
            passes never end. `len()` is the number of remaining batches, or of batches in one pass
            if `epochs` is None.

    Raises:
        UsageError: PyTorch is not installed.
    """

    def __init__(
        self,
        rows: Rows,
        *,
        batch_size: int,
        seed: int = 0,
        start: int = 0,
        worker: int = 0,
        workers: int = 1,
        shuffle_window_rows: int = SHUFFLE_WINDOW_ROWS,
        epochs: int | None = None,
    ) -> None:
        if get_worker_info is None:
            raise UsageError("TorchRows needs PyTorch: pip install torch")
        super().__init__()
        self._rows, self._start, self._epochs = rows, start, epochs
        self._order = {
            "batch_size": batch_size,
            "seed": seed,
            "worker": worker,
            "workers": workers,
            "shuffle_window_rows": shuffle_window_rows,
        }

    def __iter__(self) -> Iterator[dict[str, Any]]:
        loader = get_worker_info()
        place, count = (loader.id, loader.num_workers) if loader else (0, 1)
        # The loader takes one batch from each of its workers in turn.
        batches = self._rows.batches(
            **self._order,
            shuffle=True,
            start=self._start + place,
            stride=count,
            epochs=self._epochs,
        )
        for batch in batches:
            yield {
                name: _values(column)
                for name, column in zip(batch.schema.names, batch.columns, strict=True)
            }

    def __len__(self) -> int:
        order = {name: self._order[name] for name in ("batch_size", "worker", "workers")}
        if self._epochs is None:
            return self._rows.batches_of(epochs=1, **order)
        return max(0, self._rows.batches_of(epochs=self._epochs, **order) - self._start)

    def state_dict(self, taken: int) -> dict[str, Any]:
        """Returns the state after `taken` batches; the caller counts them.

        The loader reads ahead, so a count of the batches that it has read would be too high.
        """
        rows = {"rows": len(self._rows), "digest": self._rows.digest}
        return {**self._order, **rows, "start": self._start + taken}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Makes the next iteration continue at a saved state.

        Raises:
            UsageError: The state belongs to other rows or another order; the message names the
                difference.
        """
        own = self.state_dict(0)
        changed = [name for name in own if name != "start" and own[name] != state.get(name)]
        if changed:
            what = ", ".join(f"{name} was {state.get(name)}, is {own[name]}" for name in changed)
            raise UsageError(f"the state is of another order of rows: {what}")
        self._start = state["start"]


def _values(column: pa.Array) -> npt.NDArray[Any]:
    kind = column.type
    if pa.types.is_fixed_size_list(kind) and not pa.types.is_binary(kind.value_type):
        return _values(column.flatten()).reshape(len(column), kind.list_size)
    found = column.to_numpy(zero_copy_only=False)
    # PyTorch uses writable arrays of numbers without a copy, and leaves arrays of objects
    # unchanged. If texts were in a list, PyTorch would inspect each of them, which takes 8 us per
    # row of eight texts.
    return found if found.dtype == object else np.array(found)
