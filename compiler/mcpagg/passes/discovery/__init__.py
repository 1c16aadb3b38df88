"""The third pass: every server is started once and asked what it offers."""
