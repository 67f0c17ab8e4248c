"""Training from TFRecord shards: input, loop, utilisation, export."""
