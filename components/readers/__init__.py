"""Shards read without TensorFlow, and exported to the formats of other readers."""
