"""The compiled exact evaluation and search of one layer: C++ behind one module, without a Python object inside."""

from importlib.util import find_spec

from fadiff_mapper.kernel.instruction_sets import usable_levels

# Folders where `_kernel` is looked for: the best level first, then the package itself.
__path__[:0] = [f"{folder}/{level}" for folder in __path__ for level in usable_levels()]

if find_spec(f"{__name__}._kernel") is None:
    raise ImportError(f"the compiled kernel is missing in {__path__[-1]}: install the package first (pip install .)")
