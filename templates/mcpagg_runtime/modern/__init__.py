"""The revision of 2026-07-28 at both edges; no I/O."""
