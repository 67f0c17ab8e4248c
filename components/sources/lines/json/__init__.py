"""JSON Lines: one JSON object a line."""
