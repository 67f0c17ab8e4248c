"""PyTorch's readers of the generated table: MosaicML streaming, torchdata, Penstock's TorchRows.

    penstock bench formats --torch-python ENV/bin/python

Because their packages conflict with TFX's, the readers run in a Python environment of their own,
which these commands make:

    python3.11 -m venv ENV
    ENV/bin/pip install torch==2.5.1 mosaicml-streaming torchdata==0.9.0
    ENV/bin/pip install pyarrow pyarrow-hotfix lazy-loader psutil google-crc32c
"""

import pickle
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from penstock.benchmarks import peers, table
from penstock.benchmarks.harness import make_once
from penstock.benchmarks.peers import Peer, Row

# The second line has the packages that Penstock's TorchRows needs besides torch.
PACKAGES = (
    "torch", "mosaicml-streaming", "torchdata",
    "pyarrow", "pyarrow-hotfix", "lazy-loader", "psutil", "google-crc32c",
)  # fmt: skip
MDS, MAPPED, TORCH_ROWS = "MosaicML streaming", "torchdata, mapped rows", "packed, TorchRows"
_MDS_FOLDER, _MAPPED_FOLDER = "mds", "mapped"


def make_mapped(root: Path, payloads: Iterator[bytes]) -> None:
    """Writes the rows into one file and the offsets of their ends into another, unless they exist.

    Call it in TFX's Python, because NumPy in the environment of `--torch-python` generates other
    numbers from the same seed.
    """
    make_once(root / _MAPPED_FOLDER, lambda folder: _write_mapped(folder, payloads))


def _write_mapped(folder: Path, payloads: Iterator[bytes]) -> None:
    import numpy as np

    folder.mkdir(parents=True)
    with (folder / "rows.bin").open("wb") as file:
        sizes = [file.write(payload) for payload in payloads]
    np.save(folder / "ends.npy", np.cumsum(sizes))


class MappedRows:
    """Rows of a memory-mapped file, for loaders that request all rows of a batch at once."""

    def __init__(self, root: Path) -> None:
        import numpy as np

        folder = root / _MAPPED_FOLDER
        self._data = np.memmap(folder / "rows.bin", np.uint8, "r")
        self._ends = np.load(folder / "ends.npy")

    def __len__(self) -> int:
        return len(self._ends)

    def __getitem__(self, row: int) -> Row:
        begin = self._ends[row - 1] if row else 0
        return peers.row_from(bytes(self._data[begin : self._ends[row]]))

    def __getitems__(self, rows: list[int]) -> list[Row]:
        return [self[row] for row in rows]


def mds_batches(root: Path) -> Iterator[Row]:
    """StreamingDataset, shuffled in blocks of 16,384 rows; arrays are stored as ndarray columns."""
    import streaming
    from torch.utils.data import DataLoader

    make_once(root / _MDS_FOLDER, lambda folder: _write_mds(folder, MappedRows(root)))
    streaming.base.util.clean_stale_shared_memory()
    rows = streaming.StreamingDataset(
        local=str(root / _MDS_FOLDER),
        shuffle=True,
        shuffle_seed=1,
        shuffle_block_size=table.SHUFFLED_ROWS,
        batch_size=table.BATCH,
    )

    def stack(some: list[Row]) -> Row:
        return _stacked([{**row, "bytes": pickle.loads(row["bytes"])} for row in some])

    return _endless(DataLoader(rows, batch_size=table.BATCH, collate_fn=stack))


def _write_mds(folder: Path, rows: MappedRows) -> None:
    from streaming import MDSWriter

    columns = {"float32": "ndarray:float32:20", "int64": "ndarray:int64:12", "bytes": "bytes"}
    with MDSWriter(out=str(folder), columns=columns, size_limit="16mb") as out:
        for row in map(rows.__getitem__, range(len(rows))):
            out.write({**row, "bytes": pickle.dumps(tuple(row["bytes"]))})


def mapped_batches(root: Path) -> Iterator[Row]:
    """StatefulDataLoader that picks rows at random from a whole memory-mapped file."""
    from torchdata.stateful_dataloader import StatefulDataLoader

    loader = StatefulDataLoader(
        MappedRows(root), batch_size=table.BATCH, shuffle=True, collate_fn=_stacked
    )
    return _endless(loader)


def torch_rows(root: Path) -> Iterator[Row]:
    """`TorchRows` in a DataLoader without worker processes; each batch has 40 columns by name."""
    from torch.utils.data import DataLoader

    from penstock import Rows
    from penstock.training import TorchRows

    rows = TorchRows(Rows(root / "packed"), batch_size=table.BATCH, seed=1)
    return iter(DataLoader(rows, batch_size=None))


def _stacked(some: list[Row]) -> Row:
    import numpy as np
    import torch

    numbers = {
        n: torch.from_numpy(np.stack([row[n] for row in some])) for n in ("float32", "int64")
    }
    return {**numbers, "bytes": np.stack([row["bytes"] for row in some])}


def _endless(loader: Any) -> Iterator[Row]:
    while True:
        yield from loader


OF_TABLE = {
    MDS: Peer(mds_batches, f"{_MDS_FOLDER}/*"),
    MAPPED: Peer(mapped_batches, f"{_MAPPED_FOLDER}/*"),
    TORCH_ROWS: Peer(torch_rows, "packed/Split-train/*"),
}
