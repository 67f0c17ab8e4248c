"""Blocks of rows of text, their parallel scan and cuts; shared by CSV, JSON Lines, plain text."""
