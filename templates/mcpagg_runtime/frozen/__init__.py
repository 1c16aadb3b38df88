"""Frozen servers: what was reviewed is started, or nothing."""
