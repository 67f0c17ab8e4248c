import pytest

from penstock.components.files import retry
from penstock.components.sources.open import open_source


@pytest.mark.parametrize("name", ["a.csv", "a.jsonl"])
def test_small_parts_are_cut_without_a_look_at_the_file_for_each(tmp_path, monkeypatch, name):
    header, row = (
        ("id,text\n", '{},"{}"\n') if name == "a.csv" else ("", '{{"a": {}, "b": "{}"}}\n')
    )
    lines = (row.format(at, "x" * (at % 100)) for at in range(40_000))
    (tmp_path / name).write_text(header + "".join(lines))
    source = open_source(str(tmp_path / name))
    read, readinto = [], retry._readinto
    monkeypatch.setattr(retry, "_readinto", lambda *a: read.append(readinto(*a)) or read[-1])
    runs = source.cut(200)
    assert sum(read) < 10 * source.input_bytes
    rows = [batch.rows_read for run in runs for batch in source.read(run)]
    assert sum(rows) == 40_000
    assert len(rows) == 200
