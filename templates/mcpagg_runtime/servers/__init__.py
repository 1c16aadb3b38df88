"""One server: its instances, its connection, its life, calls and requests."""
