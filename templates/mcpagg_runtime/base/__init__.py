"""What all serving is built on: it answers from the file, whatever has changed since."""
