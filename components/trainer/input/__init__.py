"""Training input: reads shards or packed records as a tf.data.Dataset of batches."""
