"""Serving on stdio: the engine carries out what the core wants done."""
