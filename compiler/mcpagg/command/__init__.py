"""The command line: what a run is asked to do, what it says, and what it leaves behind."""
