"""Fused layers: groups of layers that hand tiles of tensors to one another on the chip.

`evaluate_fused` gives the exact counts of a mapping in LoopTree's input format.
"""

from fadiff_mapper.fusion.evaluate import FusedStats, evaluate_fused

__all__ = ["FusedStats", "evaluate_fused"]
