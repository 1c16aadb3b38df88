"""The core: which server a message of a client is for, and which client one of a server."""
