"""Fused groups as inputs of LoopTree."""
