"""The parts that all pipelines share, one a module: each can be read and replaced by itself."""
