"""Many clients over HTTP, as an ASGI application."""
