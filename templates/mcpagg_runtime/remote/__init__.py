"""Servers behind a URL."""
