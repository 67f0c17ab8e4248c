"""Databases that SQLAlchemy can reach: the result of one query, read once."""
