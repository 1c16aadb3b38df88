"""The second pass: whether this machine has what the config needs."""

from mcpagg.environment.checking import check_environment, unpinned

__all__ = ["check_environment", "unpinned"]
