"""Clients: who they are, what they are told and shown."""
