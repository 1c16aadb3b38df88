"""Processes, threads and pipes: how they are started, read, written to and ended."""
