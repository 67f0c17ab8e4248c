import pytest

from penstock.pipelines.reporting.numbers import compact, duration, metric, percent, signed, span


@pytest.mark.parametrize(
    ("shown", "value", "text"),
    [
        *[
            (compact, value, text)
            for value, text in [
                (None, ""),
                (15002, "15,002"),
                (0.9010017, "0.9010"),
                (41.86319, "41.86"),
                (1408420477.0, "1,408,420,477"),
                (1234.5678, "1,235"),
                (1.2e-7, "1.2e-07"),
                (3e20, "3e+20"),
                (float("inf"), "inf"),
            ]
        ],
        (percent, None, ""),
        (percent, 0, "0 %"),
        (percent, 0.0004, "< 0.1 %"),
        (percent, 0.031, "3.1 %"),
        (percent, 0.34, "34 %"),
        (duration, 0.0204, "20 ms"),
        (duration, 0.41, "0.4 s"),
        (duration, 12.4, "12 s"),
        (duration, 200, "3 min 20 s"),
        (duration, 7500, "2 h 5 min"),
        (signed, 0.25, "+0.2500"),
        (signed, -0.25, "-0.2500"),
        (signed, 0, "0"),
    ],
)
def test_formats(shown, value, text):
    assert shown(value) == text


def test_a_column_of_metrics_has_as_many_decimals_in_every_row():
    assert [metric(v, "auc") for v in (1.0, 0.5, float("nan"))] == ["1.0000", "0.5000", ""]
    assert metric(5091.0, "example_count") == "5,091"


def test_span_is_as_precise_as_its_step():
    assert span(41.66, 41.6957, 0.0357) == "41.660 to 41.696"
    assert span(17031010201, 17031107090, 96890) == "17,031,010,201 to 17,031,107,090"
