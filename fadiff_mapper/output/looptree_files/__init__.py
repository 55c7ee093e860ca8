"""Fused groups written as inputs of LoopTree (`v4fused`), and the reasons where a group cannot be."""
