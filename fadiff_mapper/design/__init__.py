"""The search for machines: spaces of designs, their evaluation, methods that propose designs, and the search loop."""
