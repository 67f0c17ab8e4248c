"""Plain text: one row a line."""
