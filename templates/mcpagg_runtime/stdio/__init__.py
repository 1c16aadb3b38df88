"""Serving on stdio: the engine that carries out what the core wants done."""
