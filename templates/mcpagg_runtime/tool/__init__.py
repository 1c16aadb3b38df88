"""The command line of the emitted file, and its class `Aggregator`."""
