"""Files and addresses: listing, local copies of remote files, and outputs that appear complete."""
