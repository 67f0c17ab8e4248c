import pytest

from penstock.components.trainer.input.options import InputOptions


@pytest.mark.parametrize(
    ("window", "files", "block"), [(16_384, 8, 1024), (65_536, 8, 1024), (512, 8, 64), (4, 8, 1)]
)
def test_a_window_holds_a_block_of_every_file(window, files, block):
    options = InputOptions(batch_size=8, shuffle_window_rows=window, interleave_files=files)
    assert options.block_rows == block
