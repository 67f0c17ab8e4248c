"""The places at which scanned text may be cut."""

from penstock.components.sources.open import open_source
from penstock.components.sources.text import source as text_scan


def test_the_first_row_of_each_cell_is_a_place_to_cut(monkeypatch, tmp_path, read_out):
    monkeypatch.setattr(text_scan, "CELL_BYTES", 64)
    # Within the quotes it looks like rows of their own.
    text = b'id,text\n1,"' + b"2,b\n" * 30 + b'"\n' + b"".join(b"%d,c\n" % i for i in range(10, 60))
    (tmp_path / "a.csv").write_bytes(text)
    source = open_source(str(tmp_path / "a.csv"))
    assert [row[0] for row in read_out(source, 7).rows] == [1, *range(10, 60)]
    checkpoints = source.scanned[str(tmp_path / "a.csv")].checkpoints.tolist()
    assert checkpoints == [
        [8, 1, 2], [133, 2, 33], [193, 14, 45], [258, 27, 58], [323, 40, 71], [383, 52, 83],
    ]  # fmt: skip
