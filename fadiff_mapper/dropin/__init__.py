"""Takes the place of `timeloop-mapper` and `timeloop-model`: their command lines, files, and Python functions."""
