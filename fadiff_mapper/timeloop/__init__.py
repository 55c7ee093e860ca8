"""Timeloop's programs: the real ones, where installed, run and compared with; launchers and calls in their place."""
