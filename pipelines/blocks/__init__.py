"""What all pipelines share, a part a module: each can be read, and replaced, by itself."""
