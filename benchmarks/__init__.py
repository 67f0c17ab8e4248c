"""One file per claim or question: `python benchmarks/NAME.py`, `penstock bench QUESTION`."""
