"""The search for machines: spaces of designs, their evaluation, methods that propose them, and the loop around."""
