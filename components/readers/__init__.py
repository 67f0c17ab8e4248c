"""Reads shards without TensorFlow, and exports them to the formats of other readers."""
