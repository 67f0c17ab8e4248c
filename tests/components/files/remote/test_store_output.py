"""Outputs on moto's S3 server over HTTP on loopback, through a proxy that fails on demand."""

import threading
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import pytest
from local_beam import local_pipeline
from typer.testing import CliRunner

from penstock.components.engine.tasks import run_tasks
from penstock.components.errors import DataError, UsageError
from penstock.components.example_gen.ingest import ingest
from penstock.components.example_gen.options import IngestInput, IngestOptions, SplitOptions
from penstock.components.files import store_output
from penstock.components.files.remote import find_below
from penstock.components.tfrecord.sharding import ShardOptions
from penstock.components.trainer.input.files import find_input, find_packed
from penstock.pipelines.cli.main import app

pytestmark = pytest.mark.slow
OUT = "s3://bucket/out"


def table(path, rows=500, bad=()):
    lines = [f"{i},{'x' if i in bad else i * i}" for i in range(rows)]
    path.write_text("id,n\n" + "\n".join(lines) + "\n")
    return path


def run(path, output=OUT, *, overwrite=False, shards=3, **options):
    options = IngestOptions(shards=ShardOptions(shards=shards), **options)
    job = IngestInput(str(path), splits=SplitOptions())
    return ingest([job], output, options, overwrite=overwrite)


def main(*arguments):
    done = CliRunner().invoke(app, [*map(str, arguments)])
    assert done.exit_code == 0, done.output
    return done.output


def objects(s3):
    found = s3.list_objects_v2(Bucket="bucket", Prefix="out/").get("Contents", ())
    return {one["Key"].removeprefix("out/"): one["Size"] for one in found}


def test_the_same_shards_as_on_a_disk_and_nothing_else(s3, tmp_path):
    path = table(tmp_path / "a.csv")
    here, there = run(path, tmp_path / "out"), run(path)
    assert here == there
    listed = {shard.file: shard.bytes for shard in there.shards}
    assert objects(s3) == listed | {"manifest.json": len(there.to_json())}
    with pytest.raises(UsageError, match=f"{OUT} exists already; name another output or pass"):
        run(path)


def test_an_address_as_spark_has_it(s3, tmp_path):
    path = table(tmp_path / "a.csv")
    manifest = run(path, "s3a://bucket/out/")
    assert objects(s3).keys() == {shard.file for shard in manifest.shards} | {"manifest.json"}
    assert find_input("s3a://bucket/out", split="train").rows == manifest.account.written["train"]
    s3.put_object(Bucket="bucket", Key="in/a.csv", Body=path.read_bytes())
    with pytest.raises(UsageError, match=r"s3://bucket/in: holds a\.csv, which no ingest wrote"):
        run("s3://bucket/in/a.csv", "s3a://bucket/in")
    with pytest.raises(UsageError, match="s3://bucket: a bucket cannot be an output; name a fol"):
        run(path, "s3://bucket/")


def test_the_reason_of_two_tasks_that_fail_at_once_is_that_of_a_task(s3):
    place = store_output._StoreOutput(OUT, b"")

    def work(task):
        [plan] = find_below(OUT)
        place.put(plan.removeprefix(f"{OUT}/").replace("plan", "stopped"), b"row 1 is bad")
        raise DataError(f"row {task} is bad")

    with pytest.raises(DataError, match=r"^row 2 is bad$"):
        list(run_tasks([2], work, place, partial(local_pipeline, 1)))


def test_a_file_gets_another_name(s3, google, tmp_path):
    folder = tmp_path / "taken"
    (folder / "try").mkdir(parents=True)
    for address in ("s3://bucket/out", "gs://b/out"):
        (folder / "try" / "shard").write_bytes(b"one")
        output = store_output._StoreOutput(address, b"")
        output.take(folder)
        output.move("try/shard", "Split-train/shard")
        assert output.read("Split-train/shard") == b"one"


def test_bad_data_leave_nothing(s3, tmp_path):
    with pytest.raises(DataError, match=r"a\.csv: line 42 \(row 41\), column 'n'"):
        run(table(tmp_path / "a.csv", rows=9000, bad=[40]))
    assert objects(s3) == {}


def test_what_a_dead_writer_left_is_cleared_where_it_may_be_overwritten(s3, tmp_path):
    for name in (".work/claim", ".work/plan", "Split-train/data_tfrecord-00000-of-00002"):
        s3.put_object(Bucket="bucket", Key=f"out/{name}", Body=b"old")
    with pytest.raises(UsageError, match="another ingest is writing here, or was killed; wait"):
        run(table(tmp_path / "a.csv"))
    assert len(objects(s3)) == 3
    manifest = run(table(tmp_path / "a.csv"), overwrite=True)
    listed = {shard.file for shard in manifest.shards}
    assert objects(s3).keys() == listed | {"manifest.json"}


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("thesis.pdf", "holds thesis.pdf, which no ingest wrote; refusing to write beside it"),
        (
            "manifest.json",
            "not written by penstock ingest or pack (its manifest.json is not one of",
        ),
    ],
)
def test_what_no_ingest_wrote_stays(s3, tmp_path, name, reason):
    s3.put_object(Bucket="bucket", Key=f"out/{name}", Body=b'{"name": "my app"}')
    with pytest.raises(UsageError) as caught:
        run(table(tmp_path / "a.csv"), overwrite=True)
    assert str(caught.value).startswith(f"{OUT}: {reason}")
    assert objects(s3) == {name: 18}


def test_overwrite_of_a_prefix_with_foreign_objects_is_refused(s3, tmp_path):
    run(table(tmp_path / "a.csv"))
    s3.put_object(Bucket="bucket", Key="out/Split-train/notes.txt", Body=b"mine")
    before = objects(s3)
    with pytest.raises(UsageError, match=r"holds Split-train/notes\.txt, which its manifest\.json"):
        run(table(tmp_path / "a.csv"), overwrite=True)
    assert objects(s3) == before


def test_of_two_writers_at_the_same_moment_one_wins(s3, tmp_path):
    paths = [table(tmp_path / f"{name}.csv", rows) for name, rows in (("a", 500), ("b", 700))]
    both = threading.Barrier(2)

    def work(path):
        both.wait(10)
        try:
            return run(path)
        except UsageError as error:
            return str(error)

    with ThreadPoolExecutor(2) as pool:
        results = list(pool.map(work, paths))
    [lost] = [result for result in results if isinstance(result, str)]
    assert lost.startswith(f"{OUT}")
    [won] = [result for result in results if not isinstance(result, str)]
    stored = s3.get_object(Bucket="bucket", Key="out/manifest.json")["Body"].read()
    assert stored.decode() == won.to_json()
    assert {shard.file: shard.bytes for shard in won.shards}.items() <= objects(s3).items()


def test_a_writer_that_was_taken_for_dead_does_not_commit(s3, tmp_path):
    path = table(tmp_path / "a.csv")
    run(path, tmp_path / "out")
    with (
        pytest.raises(DataError, match="another ingest took over here; start again"),
        store_output.open_store(OUT, overwrite=False) as slow,
    ):
        manifest = run(path, overwrite=True)
        slow.commit(manifest)
    assert objects(s3)["manifest.json"] == len(manifest.to_json())


def test_another_content_under_a_shards_name_is_refused(s3, tmp_path):
    (tmp_path / "Split-train").mkdir()
    shard = tmp_path / "Split-train" / "data_tfrecord-00000-of-00001"
    shard.write_bytes(b"one")
    output = store_output._StoreOutput(OUT, b"")
    output.take(tmp_path)
    shard.write_bytes(b"one")
    output.take(tmp_path)  # another attempt at the task
    shard.write_bytes(b"two")
    with pytest.raises(DataError, match="00000-of-00001: another ingest wrote this meanwhile"):
        output.take(tmp_path)


def test_a_server_that_fails_for_a_moment_is_asked_again(s3, proxy, tmp_path):
    proxy.put_faults += ["503", "503", "reset", "503"]
    manifest = run(table(tmp_path / "a.csv"))
    assert proxy.put_faults == []
    assert len(objects(s3)) == len(manifest.shards) + 1
    proxy.put_faults += ["503"] * 200
    with pytest.raises(DataError, match="cannot be written, 5 tries failed"):
        run(table(tmp_path / "a.csv"), overwrite=True)


def test_its_readers(s3, tmp_path):
    manifest = run(table(tmp_path / "a.csv"))
    assert "6 files" in main("verify", OUT)
    assert "500 records (counted)" in main("inspect", OUT)
    assert "1 file" in main("inspect", f"{OUT}/Split-eval/data_tfrecord-00000-of-00003")
    main("pack", OUT, tmp_path / "packed")
    for source in (OUT, [f"{OUT}/Split-train/*"]):
        found = find_input(source, split="train")
        assert found.rows == manifest.account.written["train"]
    assert find_packed(str(tmp_path / "packed"), split="eval")[0].rows
    s3.delete_object(Bucket="bucket", Key="out/Split-eval/data_tfrecord-00001-of-00003")
    with pytest.raises(DataError, match="eval/data_tfrecord-00001-of-00003: shard is missing"):
        find_input(OUT, split="train")
    with pytest.raises(DataError, match="s3://bucket/none: no such file or folder"):
        find_input("s3://bucket/none", split="train")


def test_google_too(google, tmp_path):
    path = table(tmp_path / "a.csv")
    manifest = run(path, "gs://b/out")
    assert manifest == run(path, tmp_path / "out")
    names = {f"out/{shard.file}" for shard in manifest.shards}
    assert google.objects.keys() == names | {"out/manifest.json"}
    assert google.objects["out/manifest.json"].decode() == manifest.to_json()
    with pytest.raises(UsageError, match="gs://b/out exists already"):
        run(path, "gs://b/out")
    output = store_output._StoreOutput("gs://b/out", b"")
    (tmp_path / "manifest.json").write_text("{}")
    with pytest.raises(DataError, match=r"manifest\.json: another ingest wrote this meanwhile"):
        store_output.create(f"{output.address}/manifest.json", tmp_path / "manifest.json")
