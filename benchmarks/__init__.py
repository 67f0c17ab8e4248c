"""One file a claim or a question: `python benchmarks/NAME.py`, `penstock bench QUESTION`."""
