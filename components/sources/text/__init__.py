"""Blocks of text rows, their parallel scan and cuts; shared by CSV, JSON Lines and plain text."""
