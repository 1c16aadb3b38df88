"""The last pass: the text of the emitted file; FILE is read, compared and written."""
