"""Text from files to Examples: the command, and the node."""

import json

import pytest

from penstock.components.sources.binary import Binary
from penstock.components.sources.plain_text import Text
from penstock.components.tfrecord.manifest import read_manifest


def test_the_command_writes_lines(tmp_path, run_ingest, read_examples, capsys):
    path = tmp_path / "notes.txt"
    path.write_bytes(b"first note\r\n\nsecond note")
    out = tmp_path / "out"
    assert run_ingest(path, out, "--kind", "text", "--split", "all=1") == 0
    assert "3 rows read = 2 written + 0 quarantined + 1 blank" in capsys.readouterr().out
    assert read_examples(out) == [
        {"text": b"first note", "filename": b"notes.txt", "line": 1},
        {"text": b"second note", "filename": b"notes.txt", "line": 3},
    ]
    manifest = read_manifest(out)
    assert (manifest.source_kind, manifest.source_files) == ("text", 1)
    account = manifest.account
    assert (account.read, account.written, account.quarantined, account.blank) == (
        3, {"all": 2}, 0, 1,
    )  # fmt: skip
    assert [(column.name, column.kind) for column in manifest.columns] == [
        ("text", "BYTES"), ("filename", "BYTES"), ("line", "INT"),
    ]  # fmt: skip


def test_the_command_stops_at_a_bad_line_or_sets_it_aside(
    tmp_path, run_ingest, read_examples, capsys
):
    path = tmp_path / "notes.txt"
    path.write_bytes(b"one\ntw\xff\nthree\n")
    out = tmp_path / "out"
    arguments = (path, out, "--kind", "text", "--split", "all=1", "--shards", "2")
    assert run_ingest(*arguments) == 1
    reason = "byte 3 of the line (byte 7 of the file) is not utf-8; set {} to the file's"
    assert (
        f"{path}: line 2 (row 2): {reason.format('--encoding')}, or quarantine it"
        in capsys.readouterr().err
    )
    assert not out.exists()
    aside = ("--on-bad-row", "quarantine", "--max-quarantined-share", "0.5")
    assert run_ingest(*arguments, *aside) == 0
    assert [row["line"] for row in read_examples(out)] == [1, 3]
    (line,) = [line for file in (out / "quarantine").iterdir() for line in file.open()]
    assert json.loads(line) == {
        "file": str(path), "line": 2, "row": 2, "column": None,
        "reason": reason.format("`encoding`"),
        "raw_base64": "dHf/",
    }  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize(
    ("options", "rows"),
    [
        (Text(encoding="latin-1"), 3),
        (Text(unit="document", encoding="cp1252", folder_label=True), 2),
        (Binary(max_mib=1, folder_label=True), 2),
    ],
)
def test_the_node_reads_and_its_cache_follows_the_content(tmp_path, options, rows):
    from tfx.orchestration import metadata, pipeline
    from tfx.orchestration.local.local_dag_runner import LocalDagRunner

    from penstock.components.example_gen.component import ShardedExampleGen

    root = tmp_path / "notes"
    (root / "d").mkdir(parents=True)
    (root / "a.txt").write_bytes(b"Gr\xfc\xdfe\nzwei\n")
    (root / "d" / "b.txt").write_bytes(b"drei\n")
    store = metadata.sqlite_metadata_connection_config(str(tmp_path / "metadata.sqlite"))

    def run_pipeline():
        node = ShardedExampleGen(str(root), source=options)
        LocalDagRunner().run(
            pipeline.Pipeline(
                pipeline_name="test",
                pipeline_root=str(tmp_path / "root"),
                components=[node],
                enable_cache=True,
                metadata_connection_config=store,
            )
        )
        with metadata.Metadata(store) as handle:
            return handle.store.get_artifacts_by_type("Examples")

    (made,) = run_pipeline()
    manifest = read_manifest(made.uri)
    assert (manifest.source_kind, manifest.account.read) == (options.kind, rows)
    assert len(run_pipeline()) == 1  # from the cache
    (root / "a.txt").write_bytes(b"Gr\xfc\xdfe\nzwo.\n")
    assert len(run_pipeline()) == 2
