"""The real Timeloop, where it is installed: running it and reading what it writes."""
