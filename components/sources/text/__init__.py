"""Base of the sources of CSV, JSON Lines and plain text: blocks of rows, a scan, and cuts."""
