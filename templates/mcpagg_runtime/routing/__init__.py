"""The core: which server a message of a client is for."""
