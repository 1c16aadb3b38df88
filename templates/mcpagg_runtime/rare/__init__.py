"""The part for what is out of the ordinary: text to be shown, and JSON beyond the C scanner."""
