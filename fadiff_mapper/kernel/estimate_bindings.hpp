// Estimates of fused groups, for Python.

#pragma once

#include <pybind11/pybind11.h>

namespace fadiff {

// Adds the classes `FusedSegment` and `NestEstimate` to the module; `_kernel.pyi` has their signatures.
void add_estimates(pybind11::module_& module);

}  // namespace fadiff
