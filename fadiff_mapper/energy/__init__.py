"""Energies and areas: ERT and ART, Accelergy, recorded tables, estimates from recorded figures."""
