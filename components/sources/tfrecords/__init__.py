"""TFRecord files as a source, to write shards of another size, compression or set of features."""
