"""Energies and areas: ERT and ART, Accelergy, recorded tables, estimates from recorded figures.

Timeloop takes energies from an energy reference table (ERT) and areas from an area reference table (ART), which
Accelergy writes. `choose_source` has the order in which they are looked for where the input gives none.
"""
