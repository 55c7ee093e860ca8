"""Timeloop's specifications as frozen values, and the tables of the keys that they are written with."""
