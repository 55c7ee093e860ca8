"""The words by which a user says where energies come from; nothing is imported here, so that --help stays instant."""

from __future__ import annotations

CHOICES = {
    "auto": "Accelergy where it is installed, else the bundled tables of the design, else an estimate",
    "accelergy": "Accelergy",
    "bundled": "the bundled tables of the design, else Timeloop's built-in values",
    "estimate": "an estimate from recorded figures, also for what an ERT lacks",
    "built-in": "Timeloop's built-in values, also for what an ERT lacks",
}
"""Where energies come from that no ERT in the input gives."""

COMPLETES = ("estimate", "built-in")
"""The choices that fill in what an ERT lacks."""
