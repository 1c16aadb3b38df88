"""JSON text, messages, and what the protocol says of them."""
