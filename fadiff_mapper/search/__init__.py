"""The search of single layers: simulated annealing on the exact model, on request from where gradient descents end."""
