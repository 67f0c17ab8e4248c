"""Images in folders, labelled by folder or by a file, as a source."""
