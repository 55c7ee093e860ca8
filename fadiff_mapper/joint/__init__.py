"""A whole network: which layers to fuse, how to tile fused groups, how to map every layer."""

from fadiff_mapper.joint.result import GroupOutcome, LayerOutcome, NetworkResult, TileMapping

__all__ = ["GroupOutcome", "LayerOutcome", "NetworkResult", "TileMapping"]
