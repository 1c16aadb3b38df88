"""What starts the process of a server: compiled before all else that a call needs."""
