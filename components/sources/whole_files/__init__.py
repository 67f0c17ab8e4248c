"""Files of which each is a row: found below the input, hashed, shuffled, read whole."""
