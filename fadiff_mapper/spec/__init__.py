"""Timeloop's specifications as frozen values; the only room that reads and writes Timeloop's YAML keys.

`native/` reads and writes the dialect of Timeloop's binaries, `v04/` translates the dialect of its Python front end
into that one. The rooms behind see the values of this folder alone.
"""
