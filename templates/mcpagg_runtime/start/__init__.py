"""What a start needs: it answers from the file alone."""
