import base64
import json
import os
import pickle
import shutil
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest
import tensorflow as tf

from penstock.components.errors import DataError, UsageError
from penstock.components.example_gen.ingest import (
    PlannedInput,
    ingest,
    plan_input,
    shard_tasks,
    write_inputs,
)
from penstock.components.example_gen.options import IngestInput, IngestOptions, Split, SplitOptions
from penstock.components.example_gen.shard_task import write_files
from penstock.components.files.output import _LocalOutput
from penstock.components.sources.open import open_source
from penstock.components.sources.options import Table
from penstock.components.sources.tfrecords.source import TFRecord
from penstock.components.tfrecord.checked import checked_manifest
from penstock.components.tfrecord.manifest import RowAccount
from penstock.components.tfrecord.sharding import ShardOptions, ShardPlan

ONE = SplitOptions((Split("all"),))


def run(pattern, output, *, splits=ONE, workers=1, overwrite=False, **options):
    options = {"shards": ShardOptions(shards=3), **options}
    chosen = IngestOptions(**options)
    job = IngestInput(str(pattern), Table(), splits)
    return ingest([job], output, chosen, engine=workers, overwrite=overwrite)


def write_csv(path, rows, bad=()):
    lines = [f"{i},{i / 4},name {i}" for i in range(rows)]
    for i in bad:
        lines[i] = f"{i},not a number,name {i}"
    path.write_text("id,fare,name\n" + "\n".join(lines) + "\n")
    return path


def records(output, manifest, split):
    files = [str(output / shard.file) for shard in manifest.splits[split]]
    dataset = tf.data.TFRecordDataset(files, compression_type=manifest.compression)
    return [tf.train.Example.FromString(r.numpy()) for r in dataset]


def test_every_row_is_written_once_and_in_order(tmp_path):
    manifest = run(write_csv(tmp_path / "a.csv", 100), tmp_path / "out")
    rows = records(tmp_path / "out", manifest, "all")
    assert [row.features.feature["id"].int64_list.value[0] for row in rows] == list(range(100))
    assert rows[3].features.feature["fare"].float_list.value[0] == 0.75
    assert rows[3].features.feature["name"].bytes_list.value[0] == b"name 3"
    assert manifest.account == RowAccount(read=100, written={"all": 100})
    assert sorted(p.name for p in (tmp_path / "out").iterdir()) == ["Split-all", "manifest.json"]
    assert sorted(p.name for p in (tmp_path / "out" / "Split-all").iterdir()) == [
        "data_tfrecord-00000-of-00003",
        "data_tfrecord-00001-of-00003",
        "data_tfrecord-00002-of-00003",
    ]


def test_the_manifest_read_back_is_the_one_that_was_returned(tmp_path):
    manifest = run(write_csv(tmp_path / "a.csv", 10), tmp_path / "out", compression="GZIP")
    assert checked_manifest(tmp_path / "out") == manifest
    assert manifest.plan == "3 as asked for"
    columns = {column.name: column.kind for column in manifest.columns}
    assert columns == {"id": "INT", "fare": "FLOAT", "name": "BYTES"}
    assert len(records(tmp_path / "out", manifest, "all")) == 10


def test_strict_mode_names_the_row_and_leaves_nothing(tmp_path):
    path = write_csv(tmp_path / "a.csv", 100, bad=[70, 40])
    with pytest.raises(DataError, match=r"a\.csv: line 42 \(row 41\), column 'fare': .*"):
        run(path, tmp_path / "out")
    assert os.listdir(tmp_path) == ["a.csv"]


def test_quarantine_keeps_the_row_and_its_reason(tmp_path):
    path = write_csv(tmp_path / "a.csv", 1000, bad=[40, 700])
    path.write_bytes(path.read_bytes().replace(b"name 700", b"\xff"))
    manifest = run(path, tmp_path / "out", on_bad_row="quarantine")
    assert manifest.account == RowAccount(read=1000, written={"all": 998}, quarantined=2)
    kept = [
        json.loads(line)
        for file in sorted((tmp_path / "out" / manifest.quarantine).iterdir())
        for line in file.read_text().splitlines()
    ]
    assert [(row["line"], row["row"], row["column"]) for row in kept] == [
        (42, 41, "fare"),
        (702, 701, "fare"),
    ]
    assert kept[0]["raw"].rstrip("\n") == "40,not a number,name 40"
    assert base64.b64decode(kept[1]["raw_base64"]).rstrip(b"\n") == b"700,not a number,\xff"


@pytest.mark.slow
def test_two_tries_of_one_task_at_the_same_moment_never_mix(tmp_path):
    path = write_csv(tmp_path / "a.csv", 20_000, bad=range(0, 20_000, 40))
    source = open_source(str(path), Table())
    options = IngestOptions(on_bad_row="quarantine")
    [task] = shard_tasks([PlannedInput(source, ONE, ShardPlan(1, ""))])
    (tmp_path / "out" / ".work").mkdir(parents=True)
    output = _LocalOutput(tmp_path / "out")
    both = threading.Barrier(2)

    class InStep:
        columns = source.columns

        def read(self, pieces):
            for batch in source.read(pieces):
                both.wait(10)
                yield batch

    def work(_):
        with output.new_try() as folder:
            result = write_files(replace(task, source=InStep()), options, folder)
            output.take(folder)
            return result

    with ThreadPoolExecutor(2) as pool:
        first, second = pool.map(work, range(2))
    assert first == second
    assert first.quarantined == 500
    [kept] = (output.folder / "quarantine").iterdir()
    assert [json.loads(line)["row"] for line in kept.open()] == list(range(1, 20_000, 40))


def test_a_try_that_comes_late_does_not_bring_back_what_is_over(tmp_path):
    source = open_source(str(write_csv(tmp_path / "a.csv", 10)), Table())
    [task] = shard_tasks([PlannedInput(source, ONE, ShardPlan(1, ""))])
    output = _LocalOutput(tmp_path / "out")
    (tmp_path / "out" / ".work").mkdir(parents=True)
    with pytest.raises(FileNotFoundError), output.new_try() as folder:
        shutil.rmtree(tmp_path / "out")
        write_files(task, IngestOptions(), folder)
    with pytest.raises(FileNotFoundError), output.new_try():
        pass
    assert os.listdir(tmp_path) == ["a.csv"]


def test_a_task_carries_what_it_reads_and_nothing_of_other_files(tmp_path):
    (tmp_path / "in").mkdir()
    for number in range(300):
        (tmp_path / "in" / f"{number:03d}.csv").write_text("id\n1\n2\n")
    source = open_source(str(tmp_path / "in"), Table())
    tasks = list(shard_tasks([PlannedInput(source, ONE, ShardPlan(100, ""))]))
    sizes = [len(pickle.dumps(task)) for task in tasks]
    assert max(sizes) < 3000
    assert len(pickle.dumps(source)) > 50_000
    read = [task.source.read(task.pieces) for task in pickle.loads(pickle.dumps(tasks))]
    assert sum(batch.rows_read for batches in read for batch in batches) == 600


@pytest.mark.slow
def test_what_a_try_left_whose_worker_was_killed_is_not_published(tmp_path, monkeypatch):
    from penstock.components.example_gen import shard_task as module

    def left_behind(task, options, folder):
        result = write_files(task, options, folder)
        (folder.parent / "killed").mkdir(exist_ok=True)
        (folder.parent / "killed" / "data_tfrecord-00000-of-00003").write_text("half")
        return result

    monkeypatch.setattr(module, "write_files", left_behind)
    run(write_csv(tmp_path / "a.csv", 10), tmp_path / "out")
    assert not list((tmp_path / "out").rglob(".*"))


def test_too_many_bad_rows_stop_it(tmp_path):
    path = write_csv(tmp_path / "a.csv", 100, bad=[40, 41])
    text = (
        r"2 of 100 rows do not fit \(2\.00%\), more than `max_quarantined_share` 1\.00% allows; "
        r"the first is .*a\.csv: line 42 \(row 41\), column 'fare'"
    )
    with pytest.raises(DataError, match=text):
        run(path, tmp_path / "out", on_bad_row="quarantine")
    path.write_text("id,fare\n" + "1,2,3\n" * 40)
    text = r"^none of 40 rows fits, so there is nothing to train on; the first is .*a\.csv: line 2"
    with pytest.raises(DataError, match=text):
        run(path, tmp_path / "out", on_bad_row="quarantine", max_quarantined_share=1.0)
    assert os.listdir(tmp_path) == ["a.csv"]


def test_another_number_of_shards_never_mixes_with_the_old(tmp_path):
    path = write_csv(tmp_path / "a.csv", 10)
    run(path, tmp_path / "out")
    manifest = run(path, tmp_path / "out", overwrite=True, shards=ShardOptions(shards=2))
    files = sorted(p.name for p in (tmp_path / "out" / "Split-all").iterdir())
    assert files == ["data_tfrecord-00000-of-00002", "data_tfrecord-00001-of-00002"]
    assert len(records(tmp_path / "out", manifest, "all")) == 10


def test_sources_of_several_splits_must_agree(tmp_path):
    (tmp_path / "train.csv").write_text("id,fare\n1,2.5\n")
    (tmp_path / "eval.csv").write_text("id,fare\n1,2\n")
    jobs = [
        IngestInput(str(tmp_path / f"{name}.csv"), Table(), SplitOptions((Split(name),)))
        for name in ("train", "eval")
    ]
    with pytest.raises(
        DataError, match=r"column 'fare' is FLOAT in split 'train' but INT in split 'eval'"
    ):
        ingest(jobs, tmp_path / "out")
    with pytest.raises(UsageError, match=r"split 'train' is given 2 times; name each once"):
        ingest([jobs[0]] * 2, tmp_path / "out")


def test_a_file_name_that_is_not_utf8_is_named(tmp_path):
    path = write_csv(tmp_path / os.fsdecode(b"na\xffme.csv"), 10, bad=[4])
    with pytest.raises(DataError, match=r"na\udcffme\.csv: line 6"):
        run(path, tmp_path / "out")
    options = {"on_bad_row": "quarantine", "max_quarantined_share": 0.5}
    assert run(path, tmp_path / "out", **options).account.quarantined == 1


def test_the_plan_sees_all_of_the_input(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("id,text\n" + "1,a\n" * 9000 + f"2,{'b' * 5000}\n" * 9000)
    planned = plan_input(open_source(str(path), Table()), ONE, IngestOptions())
    # The records take 44 MiB; the comment on `_SAMPLED_PLACES` in `ingest.py` explains why the
    # estimate is higher.
    assert planned.plan.reason == "8 for about 62.3 MiB: the reader interleaves 8 files"


@pytest.mark.parametrize("is_link", [False, True])
def test_output_that_holds_the_input_is_not_overwritten(tmp_path, is_link):
    run(write_csv(tmp_path / "a.csv", 3), tmp_path / "data")
    path = given = tmp_path / "data/Split-all/data_tfrecord-00000-of-00003"
    if is_link:
        given = tmp_path / "link.tfrecord"
        given.symlink_to(path)
    one = IngestInput(str(given), TFRecord(), ONE)
    with pytest.raises(UsageError, match=rf"data: holds the input .*{given.name}; name another"):
        ingest([one], tmp_path / "data", overwrite=True)
    assert path.is_file()


def test_rows_that_the_source_counted_and_nobody_read_stop_the_ingest(tmp_path):
    source = open_source(str(write_csv(tmp_path / "a.csv", 100)), Table())
    options = IngestOptions(shards=ShardOptions(shards=3))
    planned = plan_input(source, ONE, options)
    more = replace(source, rows=103)
    with pytest.raises(DataError) as caught:
        write_inputs([replace(planned, source=more)], tmp_path / "out", options)
    assert str(caught.value) == (
        "100 rows were read where the source counted 103; the input changed, or its reader is at "
        "fault: report it"
    )
    assert [path.name for path in tmp_path.iterdir()] == ["a.csv"]


def test_skip_missing_leaves_out_and_counts_rows_without_a_value(tmp_path):
    file = tmp_path / "a.csv"
    file.write_text("id,pay\n" + "".join(f"{i},{'' if i % 3 else i}\n" for i in range(30)))
    manifest = run(file, tmp_path / "out", skip_missing=("pay",))
    ids = [r.features.feature["id"].int64_list.value[0] for r in records(
        tmp_path / "out", manifest, "all"
    )]  # fmt: skip
    assert ids == list(range(0, 30, 3))
    assert manifest.account == RowAccount(read=30, written={"all": 10}, blank=20)
    with pytest.raises(UsageError, match=r"^`skip_missing`: no column 'pya'; did you mean 'pay'\?"):
        run(file, tmp_path / "other", skip_missing=("pya",))
