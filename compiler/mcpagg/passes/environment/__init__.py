"""The second pass: does this machine have what the config needs? Nothing is started."""
