"""The search of single layers: simulated annealing on the exact model, on request from the ends of gradient descents."""
