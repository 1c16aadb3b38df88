"""The fourth pass: names, routes, and what clients are shown."""
