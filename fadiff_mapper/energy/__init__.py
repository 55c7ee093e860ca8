"""Where energies come from: Accelergy, the bundled tables, or an estimate from recorded figures."""

from __future__ import annotations

from fadiff_mapper.energy.sources import CHOICES, find_tables

__all__ = ["CHOICES", "find_tables"]
