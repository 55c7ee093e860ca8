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

// Units of one rank, expected or of one number of nonzeros.
struct RankUnits {
    Lanes metadata, payload;
};

// The occupancies of the tiles of one data space at one level, see Occupancy.
struct Occupancies {
    Lanes used = 1.0, density = 1.0, nonzeros, metadata_units, most_words, most_bits, block_ratio = 1.0;
    unsigned aborts = 0, rejected = 0;  // a bit for each lane
    int ranks = 0;                      // of the format, 0 without one
    Mask counted[MOST_RANKS];           // ranks that cost something
    RankUnits units[MOST_RANKS];

    void set(int lane, const Occupancy& one);
};

// Fills in the lanes whose mapping keeps the tile, a bit each; the numbers of others mean nothing. `mapped` [LANES].
void find_occupancies(const SparseDesign& design, const MappedTiles* mapped, Lanes words, int tensor, int level,
                      unsigned kept, Met& met, Occupancies& into);

// The probability that a tile of this box holds no nonzero; negative where Timeloop ends on it.
double empty_share(const SparseDesign& design, int tensor, double box, Met& met);

}  // namespace fadiff::sparse
