from dataclasses import dataclass

import pytest

from penstock.components.files import retry
from penstock.components.sources.base import Piece
from penstock.components.sources.files import RowStart, cut_files
from penstock.components.sources.open import open_source


@dataclass(frozen=True)
class _File:
    path: str
    units: int


def _each_unit_is_a_row(file, at, before):
    return RowStart(at, at + 1, 0)


def test_one_file_in_equal_runs():
    runs = cut_files([_File("a", 10)], 3, _each_unit_is_a_row)
    assert runs == [
        (Piece("a", 0, 3, 1),),
        (Piece("a", 3, 6, 4),),
        (Piece("a", 6, 10, 7),),
    ]


def test_files_share_runs_in_order():
    runs = cut_files([_File("a", 1), _File("b", 4), _File("c", 1)], 2, _each_unit_is_a_row)
    assert runs == [
        (Piece("a", 0, 1, 1), Piece("b", 0, 2, 1)),
        (Piece("b", 2, 4, 3), Piece("c", 0, 1, 1)),
    ]


def test_rows_that_span_several_parts_leave_runs_empty():
    given = [None]

    def rows_of_ten(file, at, before):
        assert before == given[-1]
        start = -(-at // 10) * 10
        given.append(RowStart(start, start // 10 + 1, 0))
        return given[-1]

    runs = cut_files([_File("a", 20)], 5, rows_of_ten)
    assert runs == [(Piece("a", 0, 10, 1),), (), (Piece("a", 10, 20, 2),), (), ()]


def test_nothing_to_cut():
    assert cut_files([], 2, _each_unit_is_a_row) == [(), ()]


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
