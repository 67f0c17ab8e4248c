"""Blocks of text rows, their parallel scan and division; for CSV, JSON Lines and plain text."""
