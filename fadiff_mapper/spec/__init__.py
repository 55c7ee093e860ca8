"""Timeloop's specifications as frozen values; the only reader and the only writer of Timeloop's keys."""
