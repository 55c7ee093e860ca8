"""AGATF, an agent that learns which operators to fuse, rebuilt on the exact model; and our own parts switched off."""
