// Expected and largest occupancies of tiles: the compiled form of sparse/tile_occupancy.py and of the fixed structure
// of sparse/density_models.py. Numbers of other distributions come from Python and are kept.

#pragma once

#include "sparse_tiles.hpp"

namespace fadiff::sparse {

// Numbers of other distributions that were met already.
class Met {
public:
    const Occupancy& occupancy(const SparseDesign& design, const TileShape& shape);
    double empty(const SparseDesign& design, int tensor, double box);

private:
    std::unordered_map<std::string, Occupancy> tiles_;
    std::unordered_map<std::string, double> empty_;
};

void find_occupancy(const SparseDesign& design, const MappedTiles& mapped, int tensor, int level, Met& met,
                    Occupancy& into);

// The probability that a tile of this box holds no nonzero; negative where Timeloop ends on it.
double empty_share(const SparseDesign& design, int tensor, double box, Met& met);

}  // namespace fadiff::sparse
