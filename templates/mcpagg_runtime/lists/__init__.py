"""What servers offer: entries, and how lists are read, mended and compared."""
