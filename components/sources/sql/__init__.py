"""Databases that SQLAlchemy can reach: one query, read once."""
