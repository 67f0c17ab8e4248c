"""TFDV's statistics and TFT's analysis on whole Arrow batches, one task per shard, no Beam."""
