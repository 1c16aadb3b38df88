"""The command line of the emitted file."""
