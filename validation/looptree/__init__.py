"""LoopTree's model of fused layers, operation by operation, and our numbers beside a recording of LoopTree.

`fused_input` reads LoopTree's inputs (`v4fused`), `evaluate_fused` counts, `compare` compares. Semantics follow
LoopTree, the fused-layer model of pytimeloop. No code is shared with `fadiff_mapper.fusion`: each can check the other.
"""

from .evaluate_fused import FusedStats, evaluate_fused

__all__ = ["FusedStats", "evaluate_fused"]
