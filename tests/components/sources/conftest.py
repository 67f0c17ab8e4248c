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
