// Computes that happen, are gated, or are skipped: the compiled form of sparse/saved_computes.py, for eight mappings at once.

#pragma once

#include "sparse_accesses.hpp"

namespace fadiff::sparse {

struct Computes {
    Lanes actual, gated, skipped;
};

// The computes of the run. Marks lanes in which Timeloop ends on an assertion as `aborted`.
Computes save_computes(const SparseDesign& design, const SparseTiles& tiles, Mask& aborted);

}  // namespace fadiff::sparse
