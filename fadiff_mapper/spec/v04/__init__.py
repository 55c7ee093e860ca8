"""The v0.4 dialect (`nodes:` trees, constraint macros, expressions), translated into the native one.

`timeloop-model` and `timeloop-mapper` read the native dialect only; Timeloop's Python front end translates. The
same is done here, so that everything behind this door knows one dialect.
"""

from fadiff_mapper.spec.v04.document import is_v04, to_native

__all__ = ["is_v04", "to_native"]
