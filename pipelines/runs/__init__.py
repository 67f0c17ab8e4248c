"""Records, notes, attempts and row counts of the runs in the metadata store."""
