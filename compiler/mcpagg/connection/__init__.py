"""One connection to one child, as discovery and the Aggregator use it."""
