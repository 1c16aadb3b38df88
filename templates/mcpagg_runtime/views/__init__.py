"""What clients are shown where that is not simply what servers list."""
