"""TFRecord files as a source: shards of another size, compression or choice of features."""
