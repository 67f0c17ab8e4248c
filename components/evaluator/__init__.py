"""A trained model evaluated in whole batches, its result in TFMA's own files."""
