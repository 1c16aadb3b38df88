"""Messages: JSON text, lines, what JSON-RPC and MCP say of them."""
