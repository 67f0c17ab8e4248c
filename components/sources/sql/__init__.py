"""Databases that SQLAlchemy reaches, read in ranges of a key."""
