"""Shards or packed records in, a tf.data.Dataset of batches out."""
