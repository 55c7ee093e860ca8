"""Tilings of segments: shared loops, residency of operands, and estimates of their cost."""
