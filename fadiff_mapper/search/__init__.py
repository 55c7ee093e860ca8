"""The search of single layers: map spaces, lower bounds, annealing on the exact model, sensitivities, explanations."""
