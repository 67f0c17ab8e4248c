import pyarrow as pa
import pytest

from penstock.components.sources.tokens import TypeSample
from penstock.components.tfrecord.feature_kind import FeatureKind


@pytest.mark.parametrize(
    ("texts", "kind"),
    [
        (["1", "-2", " 0 ", ""], "INT"),
        (["9223372036854775807", "-9223372036854775808"], "INT"),
        (["1", "2", "9223372036854775808"], "INT"),
        (["18446744073709551615", "9223372036854775808", "1"], "BYTES"),
        (["9" * 5000, "1"], "INT"),
        (["1", "2.5", "1e3", ".5", "5."], "FLOAT"),
        (["1", "2", "NaN"], "INT"),
        (["1", "2", "1e39"], "INT"),
        (["1", "2", " -1e400", "2.5"], "FLOAT"),
        (["1e39", "9" * 400 + ".5", "1"], "BYTES"),
        (["NaN", "inf"], "FLOAT"),
        (["1", "2", "x"], "INT"),
        (["1", "x"], "BYTES"),
        (["007", "1", "2", "3"], "BYTES"),
        (["+1", "2", "3"], "BYTES"),
        (["1"] * 198 + ["007", "+5"], "INT"),
        (["1"] * 197 + ["007", "+5", "08"], "BYTES"),
        (["1.5"] * 99 + ["+2.5"], "FLOAT"),
        (["00.5", "1", "2"], "BYTES"),
        (["2024-01-01", "2024-01-02"], "BYTES"),
        (["0x10", "0x11"], "BYTES"),
        (["-", "."], "BYTES"),
        (["", "NA"], "BYTES"),
        ([], "BYTES"),
    ],
)
def test_kind(texts, kind):
    sample = TypeSample(("", "NA"))
    sample.add("x", pa.array([text.encode() for text in texts], pa.binary()))
    assert sample.kind("x") is FeatureKind[kind]


def test_parts_of_the_sample_add_up():
    sample = TypeSample(())
    sample.add("x", pa.array([b"1"] * 3))
    sample.add("x", pa.array([b"x"] * 4))
    assert sample.kind("x") is FeatureKind.BYTES
    sample.add("x", pa.array([b"2"] * 2))
    assert sample.kind("x") is FeatureKind.INT
