"""Clients: their identity and capabilities, and what they get."""
