"""Lower bounds, sensitivities, and the loops behind each count of a finished run."""
