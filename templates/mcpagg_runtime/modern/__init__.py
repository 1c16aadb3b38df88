"""What the revision of 2026-07-28 needs, on either side."""
