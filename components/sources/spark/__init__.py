"""What Spark wrote: a folder of part files with `_SUCCESS` and `.crc` beside them."""
