"""Delimited text: byte ranges cut at row starts, parsed by Arrow."""
