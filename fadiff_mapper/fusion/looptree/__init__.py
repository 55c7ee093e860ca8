"""LoopTree's model of fused layers: its inputs (`v4fused`) and its counts."""
