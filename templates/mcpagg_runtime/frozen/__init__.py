"""Frozen servers: they start what the file lists, to the byte, or not at all."""
