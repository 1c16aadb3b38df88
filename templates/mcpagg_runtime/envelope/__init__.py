"""What answers a request with an envelope from the file alone."""
