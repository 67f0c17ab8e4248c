"""Row Examples to packed training records: shuffled, stacked in blocks, read 100 times as fast."""
