"""TFRecord files as a source: writes shards of another size, compression or choice of features."""
