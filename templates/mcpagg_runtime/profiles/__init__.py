"""Subsets of what is offered, and reviewed texts for it, where the config has any."""
