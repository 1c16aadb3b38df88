"""Processes, threads and pipes."""
