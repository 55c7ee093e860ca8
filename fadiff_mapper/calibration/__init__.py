"""A learned correction of the exact model's cycles to cycles measured on real hardware: features, fit, verdict, file."""
