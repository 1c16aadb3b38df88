"""Clients: what they are told from the file, and what they are shown."""
