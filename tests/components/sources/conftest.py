"""What the tests of sources share: a source read whole, with its account checked."""

from dataclasses import dataclass, field

import pytest


@dataclass
class ReadOut:
    """Everything that came out of a source."""

    rows: list = field(default_factory=list)
    rejected: list = field(default_factory=list)
    blank: int = 0

    @property
    def errors(self):
        """The rejected rows as strict mode shows them, without the folder."""
        return [str(row).rsplit("/", 1)[-1] for row in self.rejected]


@pytest.fixture
def read_out():
    """Reads a source in so many parts, and checks that its account is exact."""

    def read(source, parts=1):
        out, read_rows = ReadOut(), 0
        for run in source.cut(parts):
            for batch in source.read(run):
                assert batch.table.num_rows <= 8192
                columns = [column.to_pylist() for column in batch.table.columns]
                out.rows += [list(row) for row in zip(*columns, strict=True)]
                out.rejected += batch.rejected
                out.blank += batch.blank
                read_rows += batch.rows_read
        assert read_rows == source.rows == len(out.rows) + len(out.rejected) + out.blank
        return out

    return read


@pytest.fixture
def run_ingest(monkeypatch):
    """Runs `penstock ingest` with arguments, and gives its exit code."""
    from penstock.pipelines.cli import main

    def run(*arguments):
        monkeypatch.setattr("sys.argv", ["penstock", "ingest", *map(str, arguments)])
        with pytest.raises(SystemExit) as ended:
            main()
        return ended.value.code

    return run


@pytest.fixture
def read_examples():
    """Reads the Examples of a split as mappings of bytes or whole numbers, or None."""
    import tensorflow as tf

    def read(output, split="all"):
        files = sorted(map(str, (output / f"Split-{split}").iterdir()))
        records = tf.data.TFRecordDataset(files)
        rows = (tf.train.Example.FromString(one.numpy()).features.feature for one in records)
        return [{name: _value(feature) for name, feature in row.items()} for row in rows]

    def _value(feature):
        values = feature.bytes_list.value or feature.int64_list.value
        return values[0] if values else None

    return read
