import re

import pytest

from penstock.components.errors import UsageError
from penstock.components.trainer.input.options import InputOptions


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"batch_size": 0}, "`batch_size` must be at least 1, got 0"),
        ({"batch_size": None}, "`batch_size` must be a whole number, got None"),
        ({"batch_size": 1.5}, "`batch_size` must be a whole number, got 1.5"),
        ({"interleave_files": 0}, "`interleave_files` must be at least 1, got 0"),
        ({"shuffle_window_rows": 0}, "`shuffle_window_rows` must be at least 1, got 0"),
        ({"prefetch_batches": -1}, "`prefetch_batches` must be at least 1, got -1"),
        ({"private_threads": 0}, "`private_threads` must be at least 1, got 0"),
        ({"ram_budget_mib": 0}, "`ram_budget_mib` must be at least 1, got 0"),
        ({"cache": "disk"}, "`cache` must be one of none, memory, got 'disk'"),
        ({"seed": 2**63}, "seed must be a 64-bit integer or None, got 9223372036854775808"),
    ],
)
def test_a_value_outside_its_range_is_named(options, message):
    with pytest.raises(UsageError, match=re.escape(message)):
        InputOptions(**{"batch_size": 8, **options})


@pytest.mark.parametrize(
    ("window", "files", "block"), [(16_384, 8, 1024), (65_536, 8, 1024), (512, 8, 64), (4, 8, 1)]
)
def test_a_window_holds_a_block_of_every_file(window, files, block):
    options = InputOptions(batch_size=8, shuffle_window_rows=window, interleave_files=files)
    assert options.block_rows == block
