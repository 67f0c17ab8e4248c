"""BigQuery queries, read through Beam's own reader."""
