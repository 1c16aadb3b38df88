"""The passes, in their order: config, environment, discovery, linking, emission."""
