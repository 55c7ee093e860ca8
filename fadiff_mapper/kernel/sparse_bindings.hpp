// Sparse designs for Python: `SparseDesign` and `score_sparse`, see `_kernel.pyi`.

#pragma once

#include <pybind11/pybind11.h>

#include "chains.hpp"

namespace fadiff {

// Adds the classes to the Python module.
void add_sparse(pybind11::module_& module);

// The evaluation on a sparse design that takes the place of the dense one in a search; none for None.
Chains::Evaluate sparse_evaluation(const pybind11::object& design);

}  // namespace fadiff
