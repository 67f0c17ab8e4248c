"""Folders that Spark wrote: part files with `_SUCCESS` and `.crc` beside them."""
