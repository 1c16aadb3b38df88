"""How a server is launched: command, variables, URL, and what of them is secret."""
