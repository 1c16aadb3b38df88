"""What servers offer: the entries of lists, and how lists are read, mended and compared."""
