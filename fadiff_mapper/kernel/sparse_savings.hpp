// Gating and skipping of accesses: the compiled form of sparse/read_savings.py.

#pragma once

#include "sparse_occupancy.hpp"

namespace fadiff::sparse {

// Accesses to the tiles of one data space at one level that eight mappings save; a bit for each lane.
struct Savings {
    unsigned lanes = 0, gated = 0;    // in which accesses are saved, and gated, not skipped
    Lanes probability;
};

// Adds the savings of one lane to those [L][T]; false where a target is stored nowhere at the level or further out.
bool find_savings(const SparseDesign& design, const MappingPack& pack, const MappedTiles& mapped,
                  const std::vector<Occupancies>& occupancies, int lane, Met& met, std::vector<Savings>& savings);

}  // namespace fadiff::sparse
