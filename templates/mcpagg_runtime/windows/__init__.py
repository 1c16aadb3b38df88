"""What only Windows needs: its processes, programs and input."""
