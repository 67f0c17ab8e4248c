"""Outside data to sharded TFRecords, checked, trained from at full speed, evaluated and pushed."""
