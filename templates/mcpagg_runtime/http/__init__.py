"""Serves many clients over HTTP, as an ASGI application."""
