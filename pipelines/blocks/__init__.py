"""Parts that all pipelines share, one module each; each can be read and replaced alone."""
