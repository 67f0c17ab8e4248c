"""TFDV's statistics and TFT's analysis on whole Arrow batches, a task a shard, without Beam."""
