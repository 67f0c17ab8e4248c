"""Measurements of claims about speed, by `penstock bench NAME`, `scale.py` and `tables.py`."""
