"""Sparse designs: what `timeloop-model` makes of compressed formats, gating and skipping, behind the dense counts."""
