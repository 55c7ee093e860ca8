"""The search of whole networks: the layers to fuse, the tiling of fused groups, the mapping of every layer."""
