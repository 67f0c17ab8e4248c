"""Rows of text, shared by CSV, JSON Lines and plain text: blocks of rows, a parallel scan, cuts."""
