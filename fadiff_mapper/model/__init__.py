"""Loop nests, access counts, energy and latency, legality: the equations that both models share."""
