"""The v0.4 dialect (`nodes:` trees, constraint macros, expressions), translated into the native one.

`timeloop-model` and `timeloop-mapper` read the native dialect only; Timeloop's Python front end translates. The
same is done here, so that all rooms behind this one know a single dialect.
"""
