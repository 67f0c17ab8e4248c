"""Checks that stop a run whose data are unfit for training, with schema and baseline."""
