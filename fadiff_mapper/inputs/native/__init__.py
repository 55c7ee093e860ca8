"""The native dialect (v0.3 trees of `subtree` and `local`, and the older lists) as values, and values in it again.

`timeloop-model` and `timeloop-mapper` read no other dialect. Keys and texts that they drop in silence are errors here.
"""
