"""Bytes in, folders out: addresses, listings, remote copies, outputs that appear by one rename."""
