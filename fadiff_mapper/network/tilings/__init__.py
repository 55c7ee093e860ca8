"""Candidates for fused groups: shared loops, tile sizes and residency, estimated in closed form."""
