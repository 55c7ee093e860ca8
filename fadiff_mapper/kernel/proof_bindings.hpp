// The proof for Python: `Prover`, see `_kernel.pyi`.

#pragma once

#include <pybind11/pybind11.h>

namespace fadiff {

// Adds the class to the Python module.
void add_prover(pybind11::module_& module);

}  // namespace fadiff
