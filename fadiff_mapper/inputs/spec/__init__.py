"""Timeloop's specifications as frozen values."""
