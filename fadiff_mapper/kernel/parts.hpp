// Parts of the kernel one by one, as tests and explanations call them; the search itself never crosses these functions.

#pragma once

#include <pybind11/pybind11.h>

namespace fadiff {

// Adds the functions to the Python module; `_kernel.pyi` has their signatures.
void add_parts(pybind11::module_& module);

}  // namespace fadiff
