"""Files of rows that a library decodes to Python values: JSON Lines and Avro."""
