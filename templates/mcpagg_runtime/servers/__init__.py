"""One server: its instances, its connection, its state, its calls."""
