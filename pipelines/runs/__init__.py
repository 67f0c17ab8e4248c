"""Records, notes, attempts and summaries of the runs in the metadata store."""
