"""Outside data, one file a kind, all behind the `Source` protocol of `base`."""
