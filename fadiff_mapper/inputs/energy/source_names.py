"""The words by which a user says where energies and areas come from.

Nothing is imported here, so that --help stays instant.
"""

from __future__ import annotations

CHOICES = {
    "auto": "Accelergy where it is installed, else the bundled tables of the design, else an estimate",
    "accelergy": "Accelergy",
    "bundled": "the bundled tables of the design, else Timeloop's built-in values",
    "estimate": "an estimate from recorded figures, also for what an ERT lacks",
    "dosa": "DOSA's formulas for a Gemmini, also for what an ERT lacks; no areas",
    "built-in": "Timeloop's built-in values, also for what an ERT lacks",
}
"""Where energies come from that no ERT in the input gives, and the areas with them."""
COMPLETES = ("estimate", "dosa", "built-in")  # the choices that complete an ERT with missing entries
