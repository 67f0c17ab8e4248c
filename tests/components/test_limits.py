"""Checks of ranges and choices, with the sentences that users read."""

from dataclasses import dataclass

import numpy as np
import pytest

from penstock.components.errors import UsageError
from penstock.components.limits import check_choices, check_numbers


@dataclass(frozen=True)
class Options:
    rows: int = 1
    workers: int | None = None
    share: float = 0.5
    compression: str = ""

    def __post_init__(self):
        check_numbers(self, rows=(1, 8), workers=1, share=0.0)
        check_choices(self, compression=("", "GZIP"))


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"rows": 9}, "`rows` must be within 1..8, got 9"),
        ({"rows": 2.0}, "`rows` must be a whole number, got 2.0"),
        ({"rows": True}, "`rows` must be a whole number, got True"),
        ({"rows": None}, "`rows` must be a whole number, got None"),
        ({"workers": 0}, "`workers` must be at least 1, got 0"),
        ({"share": float("nan")}, "`share` must be at least 0, got nan"),
        ({"share": "1"}, "`share` must be a number, got '1'"),
        ({"compression": "ZIP"}, "`compression` must be one of '', GZIP, got 'ZIP'"),
    ],
)
def test_option_outside_its_limits_is_refused(values, message):
    with pytest.raises(UsageError) as error:
        Options(**values)
    assert str(error.value) == message


def test_option_within_its_limits_is_accepted():
    assert Options(rows=np.int64(8), workers=None, share=1, compression="GZIP").rows == 8
