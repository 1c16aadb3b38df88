"""What children need: their processes, lists and calls."""
