"""Data in, the package of a pipeline for it out: what `penstock init` writes."""
