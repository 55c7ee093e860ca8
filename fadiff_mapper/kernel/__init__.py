"""The compiled exact evaluation and search of one layer: C++ behind one module, without a Python object inside."""
