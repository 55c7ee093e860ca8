"""Fused groups on Timeloop's architectures: shared tile loops over exact mappings."""
