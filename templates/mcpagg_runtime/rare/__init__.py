"""What few calls need: requests with a URI, what is new in a list, text to be shown, odd JSON."""
