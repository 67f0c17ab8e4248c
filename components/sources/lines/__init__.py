"""Files of lines: JSON Lines and plain text."""
