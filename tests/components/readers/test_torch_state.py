"""The state of `TorchRows`; these tests do not need PyTorch."""

import itertools

import pytest
from row_files import example, write_shards

from penstock.components.errors import UsageError
from penstock.components.packing.options import PackOptions
from penstock.components.packing.pack import pack
from penstock.components.readers import torch_rows
from penstock.components.readers.rows import Rows
from penstock.components.readers.torch_rows import TorchRows


def packed(folder, first):
    write_shards(folder / "rows", [example(id=[first + i], x=[i / 2]) for i in range(100)])
    pack(str(folder / "rows"), folder / "packed", PackOptions())
    return Rows(folder / "packed")


@pytest.fixture(autouse=True)
def without_workers(monkeypatch):
    monkeypatch.setattr(torch_rows, "get_worker_info", lambda: None)


def test_a_state_of_other_data_of_as_many_rows_is_refused(tmp_path):
    ours, other = packed(tmp_path / "a", 0), packed(tmp_path / "b", 1000)
    state = TorchRows(ours, batch_size=10).state_dict(3)
    again = TorchRows(ours, batch_size=10)
    again.load_state_dict(state)
    batches = itertools.islice(TorchRows(ours, batch_size=10), 3, 4)
    assert [b["id"].tolist() for b in batches] == [next(iter(again))["id"].tolist()]
    with pytest.raises(UsageError, match="the state is of another order of rows: digest was "):
        TorchRows(other, batch_size=10).load_state_dict(state)


def test_so_many_epochs_have_each_row_as_often_and_end(tmp_path):
    rows = packed(tmp_path, 0)
    data = TorchRows(rows, batch_size=30, epochs=2)
    batches = list(data)
    assert [len(batch["id"]) for batch in batches] == [30] * 6 + [20]
    ids = [i for batch in batches for i in batch["id"].tolist()]
    assert sorted(ids) == sorted([*range(100), *range(100)])
    assert len(data) == 7
    assert len(TorchRows(rows, batch_size=30)) == 4
    assert len(TorchRows(rows, batch_size=30, epochs=2, start=5)) == 2
    dtypes = {name: str(values.dtype) for name, values in batches[0].items()}
    assert dtypes == {"id": "int64", "x": "float32"}
