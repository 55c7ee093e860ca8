"""Derivatives of the metric by the machine's constants, and shadow prices of its capacities and fan-outs."""
