"""Checks that stop a run whose data are unfit for training; their schema and baseline."""
