"""Timeloop's rules: loop nests, access counts, energy and latency, legality, residual factors, sparse designs."""
