"""A whole network: which layers to fuse, how to tile fused groups, how to map every layer."""

from fadiff_mapper.joint.result import GroupOutcome, LayerOutcome, NetworkResult, TileMapping
from fadiff_mapper.joint.run import map_network

__all__ = ["GroupOutcome", "LayerOutcome", "NetworkResult", "TileMapping", "map_network"]
