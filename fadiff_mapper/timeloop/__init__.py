"""The real Timeloop, where installed: running its programs, reading their answers, comparing numbers."""
