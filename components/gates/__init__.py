"""Checks that stop a run whose data is unfit to train on, and the schema and baseline they use."""
