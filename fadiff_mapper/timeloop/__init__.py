"""Timeloop's programs: runs of the real ones, comparisons with them, and launchers and calls that replace them."""
