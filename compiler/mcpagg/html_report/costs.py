"""What a list costs the client that puts it before a model."""

from __future__ import annotations

from json.encoder import encode_basestring
from typing import Any

from mcpagg.jsontext import dumps

BYTES_PER_TOKEN = 4
"""An estimate: tokenizers differ, and none is at hand without the network."""


def listed_bytes(item: dict[str, Any], **names: str) -> int:
    """Return the length in UTF-8 of an item as it is listed under other `names`."""
    text = dumps({**item, **names}, quote=encode_basestring, separators=(",", ":"))
    return len(text.encode("utf-8", "surrogatepass"))


def tokens(size: int) -> int:
    """Return about how many tokens so many bytes are, rounded up."""
    return -(-size // BYTES_PER_TOKEN)
