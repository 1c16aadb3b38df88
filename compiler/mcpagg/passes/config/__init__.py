"""The first pass: from the text of a config, in any client's dialect, to one ProxySpec."""

from mcpagg.passes.config.reading import read_config

__all__ = ["read_config"]
