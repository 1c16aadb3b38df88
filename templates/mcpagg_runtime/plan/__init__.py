"""What the compiler decided: tables, names, URIs."""
