"""`--install` and `--uninstall`: a client's entries are replaced by faces of one emitted file."""
