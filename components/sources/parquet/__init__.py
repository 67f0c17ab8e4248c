"""Parquet files: ranges of rows."""
