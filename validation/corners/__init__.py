"""Corners: mappings built to meet the rules of Timeloop's model that random mappings seldom meet."""
