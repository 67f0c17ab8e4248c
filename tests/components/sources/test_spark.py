"""Folders like those of Spark and Hadoop, made by hand; `test_spark_writer.py` has real ones."""

import pyarrow as pa
import pytest
from reading import data_error

from penstock.components.sources.open import open_source
from penstock.components.sources.tfrecords.source import TFRecord
from penstock.components.tfrecord.encoder import encode_examples
from penstock.components.tfrecord.writer import ShardWriter, frame_records


@pytest.fixture
def folder(tmp_path):
    """A folder with a part file, named as by spark-tensorflow-connector, and Hadoop's files."""
    with ShardWriter(tmp_path, "part-r-00000", compression="") as writer:
        rows = pa.RecordBatch.from_arrays([pa.array(range(10))], names=["id"])
        writer.write(frame_records(encode_examples(rows)))
        writer.finish()
    for name in ("_SUCCESS", "._SUCCESS.crc", ".part-r-00000.crc"):
        (tmp_path / name).touch()
    return tmp_path


def refused(folder):
    return data_error(lambda: open_source(str(folder), TFRecord())).replace(f"{folder}", "out")


def test_a_job_that_did_not_finish(folder):
    assert open_source(str(folder), TFRecord()).rows == 10
    (folder / "_SUCCESS").unlink()
    assert refused(folder) == (
        "out: holds part files of Spark but no _SUCCESS, so its job did not finish or failed; run "
        "it again, or name the files, as 'out/part-*'"
    )
    assert open_source(f"{folder}/part-*", TFRecord()).rows == 10


def test_a_copy_that_was_not_finished(folder):
    part = folder / "part-r-00000"
    (folder / f"{part.name}._COPYING_").write_bytes(part.read_bytes())
    assert open_source(str(folder), TFRecord()).rows == 10
    part.rename(folder / "part-r-00001._COPYING_")
    (folder / f"{part.name}._COPYING_").rename(part)
    assert refused(folder) == (
        "out: part-r-00001._COPYING_ is a copy that was not finished; wait for it, or copy the "
        "file again"
    )


def test_part_files_of_other_programs_need_no_mark(folder):
    (folder / "part-r-00000").rename(folder / "part-00000")
    (folder / "_SUCCESS").unlink()
    assert open_source(str(folder), TFRecord()).rows == 10


def test_a_part_without_bytes_is_skipped_where_that_is_allowed(folder):
    (folder / "part-r-00001").touch()
    assert open_source(str(folder), TFRecord(allow_empty=True)).rows == 10
