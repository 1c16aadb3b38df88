"""What was decided when the file was compiled: its tables, names and addresses."""
