"""Text: a row a line, or a row a file."""
