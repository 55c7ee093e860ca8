// Mappings with residual factors for Python: `residual_traffic`, see `_kernel.pyi`.

#pragma once

#include <pybind11/pybind11.h>

namespace fadiff {

// Adds the function to the Python module.
void add_residuals(pybind11::module_& module);

}  // namespace fadiff
