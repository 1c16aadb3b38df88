"""The second pass: whether this machine has what the config needs."""

from mcpagg.environment.checking import check_environment, settle_folders, unpinned

__all__ = ["check_environment", "settle_folders", "unpinned"]
