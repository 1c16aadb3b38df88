"""What servers behind a URL need."""
