"""The command line: what a run is asked to do, what it prints, and what it writes."""
