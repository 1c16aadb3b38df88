"""How a server is launched: its command, its variables, its URL, and what of them is secret."""
