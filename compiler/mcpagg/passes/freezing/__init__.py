"""The pass that freezes servers: what each of them starts, down to the last package."""
