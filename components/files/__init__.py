"""Files and addresses: listing, remote copies, and outputs that one rename makes visible."""
