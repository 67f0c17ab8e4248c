"""Databases that SQLAlchemy reaches: one query, read once."""
