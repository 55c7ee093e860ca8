// The loops of one mapping one by one, the tiles at every level, and the fiber trees of their formats.
//
// The compiled form of sparse/complete_nest.py, stored_tiles.py, fiber_tree.py and format_analysis.py.

#pragma once

#include <cstring>

#include "tiles.hpp"
#include "sparse_design.hpp"

namespace fadiff::sparse {

constexpr int BOX_BLOCK = 8;          // a box takes a multiple of so many numbers, at most MOST_DIMS
constexpr int MOST_DIMS = 64;

struct NestLoop {
    double bound;
    int row;                          // of Nest::points: the box that this loop and all inside it span
    std::uint8_t dim;
    bool spatial;
};

// The loops of a bound above 1, innermost first. The box of the n-th is row n + 1.
struct Nest {
    std::vector<NestLoop> loops;
    std::vector<int> first;           // [L + 1]; the first loop of every level
    int width = 0;                    // numbers of a box: D, rounded up to whole vectors
    std::vector<double> points;       // [rows][width]; row 0 is a single iteration

    const double* box(int row) const { return points.data() + std::size_t(row) * width; }
    int row_of(int level) const { return first[level + 1]; }  // of the box of a level's tile
};

// Visits the loops of a level of the mapping in one lane, innermost first: spatial ones along X, then along Y, where the
// hardware has a fan-out; then temporal ones. Only those of the given dimensions, whatever their bounds.
template <typename Visit>
inline void each_loop(const Layer& layer, const MappingPack& pack, int lane, int level, Dims across, Dims over, Visit visit) {
    const int dims = layer.dims;
    const std::size_t at = std::size_t(level) * dims;
    if (across && layer.has_fanout(level))
        for (const bool on_y : {false, true})
            for (int i = 0; i < dims; ++i)
                if (const int d = pack.spatial_order[(at + i) * LANES + lane]; across >> d & 1 && pack.on_y[at + d][lane] == on_y)
                    visit(d, pack.spatial(level, dims)[d][lane], true);
    for (std::size_t i = at; over; ++i)
        if (const int d = pack.order[i * LANES + lane]; over >> d & 1) {
            over ^= Dims(1) << d;
            visit(d, pack.temporal(level, dims)[d][lane], false);
        }
}

// Copies a box. Blocks of a fixed size are moved faster than D numbers are.
inline void copy_box(const double* box, int width, double* into) {
    for (int i = 0; i < width; i += BOX_BLOCK) std::memcpy(into + i, box + i, BOX_BLOCK * sizeof *box);
}

// The ranks of a tile, innermost first.
struct FiberTree {
    int ranks = 0;
    double fibers[MOST_RANKS] = {};        // coordinates of a fiber
    double below[MOST_RANKS + 1] = {};     // boxes below each rank, and of the fiber of the outermost one
};

struct StoredTile {
    bool kept = false;
    int parent = -1, child = -1;      // levels; -1: none
    const Representation* format = nullptr;
    double words = 1, box = 1;
    FiberTree tree;

    bool compressed() const { return format && format->compressed; }
};

struct MappedTiles {
    Nest nest;
    std::vector<StoredTile> tiles;    // [L][T]
};

// Words of a data space in a box of points [D].
double words_of(const DataSpace& space, const double* points);

// The box of a data space, see BOX_SIDE.
double box_of(const SparseDesign& design, int tensor, const double* points);

// Fills in loops, tiles and trees of the mapping in one lane; false where the formats do not suit the mapping, or a tensor
// is kept nowhere.
bool lay_sparse_tiles(const SparseDesign& design, const MappingPack& pack, const Tiles& dense, int lane, MappedTiles& into);

}  // namespace fadiff::sparse
