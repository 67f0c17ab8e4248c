"""Tests with the test image's PyTorch, a Debian package built for the image's own Python."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

import penstock
from penstock import Rows

DEBIAN = Path("/usr/lib/python3/dist-packages")
# Debian's folder is last on the path, so that only PyTorch comes from it. One process runs all
# checks of the script, so that PyTorch is imported once. The workers of its data loaders are
# forked.
SCRIPT = f"""
import itertools, json, sys
sys.path.append({str(DEBIAN)!r})
import torch
from torch.utils.data import DataLoader
from penstock import Rows
from penstock.training import TorchRows

def make(**more):
    return TorchRows(Rows(sys.argv[1]), batch_size=70, seed=5, shuffle_window_rows=256, **more)

def taken(data, workers, count):
    loader = DataLoader(data, batch_size=None, num_workers=workers)
    return [batch["id"].tolist() for batch in itertools.islice(loader, count)]

found = {{str(n): taken(make(), n, 43) for n in (0, 1, 3)}}
data = make()
found["first"] = taken(data, 2, 17)
again = make()
again.load_state_dict(json.loads(json.dumps(data.state_dict(17))))
found["rest"] = taken(again, 3, 26)
found["shares"] = [taken(make(worker=w, workers=2), 0, 7) for w in (0, 1)]
try:
    make().load_state_dict({{**make().state_dict(3), "seed": 6, "rows": 9}})
except Exception as error:
    found["refused"] = [type(error).__name__, str(error)]
torch.manual_seed(0)
batches = list(DataLoader(Rows(sys.argv[1]), batch_size=50, shuffle=True, num_workers=2))
for name in ("id", "x"):
    found[name] = [value for batch in batches for value in batch[name].tolist()]
first = next(iter(DataLoader(make(), batch_size=None)))
found["texts"] = [first["id"].tolist(), str(first["name"].dtype), b",".join(first["name"]).decode()]
print(json.dumps(found))
"""

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        sys.version_info < (3, 13) or not (DEBIAN / "torch").exists(), reason="has no PyTorch"
    ),
]


@pytest.fixture(scope="module")
def packed(tmp_path_factory):
    root = tmp_path_factory.mktemp("torch")
    (root / "rows.csv").write_text(
        "id,x,name\n" + "".join(f"{i},{i / 4},name {i}\n" for i in range(1000))
    )
    splits = penstock.sources.SplitOptions((penstock.sources.Split("train", 1),))
    shards = penstock.sources.ShardOptions(shards=3)
    penstock.ingest(str(root / "rows.csv"), root / "rows", splits=splits)
    options = penstock.nodes.PackOptions(block_rows=100, shards=shards)
    penstock.pack(str(root / "rows"), root / "packed", options)
    return str(root / "packed")


@pytest.fixture(scope="module")
def found(packed):
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, packed], capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


@pytest.fixture(scope="module")
def expected(packed):
    """The first 43 batches, which contain three passes, read without PyTorch."""
    batches = Rows(packed).batches(batch_size=70, shuffle=True, seed=5, shuffle_window_rows=256)
    return [next(batches).column("id").to_pylist() for _ in range(43)]


def test_a_loader_with_any_workers_gives_the_batches_of_the_same_order(found, expected):
    assert [found["0"], found["1"], found["3"]] == [expected] * 3
    rows = [row for batch in expected for row in batch]
    assert [sorted(rows[n : n + 1000]) for n in (0, 1000, 2000)] == [list(range(1000))] * 3


def test_a_loader_resumes_by_its_state_with_other_workers(found, expected):
    assert found["first"] + found["rest"] == expected


def test_processes_of_a_distributed_training_share_each_pass(found):
    rows = [row for share in found["shares"] for batch in share for row in batch]
    assert (len(rows), len(set(rows))) == (980, 980)


def test_a_state_of_another_order_is_refused(found):
    assert found["refused"] == [
        "UsageError",
        "the state is of another order of rows: seed was 6, is 5, rows was 9, is 1000",
    ]


def test_a_loader_shuffles_rows_by_number(found):
    assert sorted(found["id"]) == list(range(1000))
    assert found["id"] != sorted(found["id"])
    assert found["x"] == [row / 4 for row in found["id"]]


def test_texts_stay_an_array_of_byte_strings(found):
    ids, kind, texts = found["texts"]
    assert kind == "object"
    assert texts.split(",") == [f"name {row}" for row in ids]
