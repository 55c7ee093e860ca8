// Gating and skipping of accesses: the compiled form of sparse/read_savings.py.

#pragma once

#include "sparse_occupancy.hpp"

namespace fadiff::sparse {

struct Saving {
    Happening kind = ACTUAL;          // ACTUAL: nothing is saved
    double probability = 0;
};

// Fills in the savings [L][T]; false where a target is stored nowhere at the level or further out.
bool find_savings(const SparseDesign& design, const MappedTiles& mapped, const std::vector<Occupancy>& occupancies,
                  Met& met, std::vector<Saving>& savings);

}  // namespace fadiff::sparse
