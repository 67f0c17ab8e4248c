"""Commands of `penstock`, one module each."""
