// Boxes of points at every boundary and their words, and instances in use, of eight mappings: model/tile_boxes.py and
// `usage` of model/usage.py.

#pragma once

#include "pack.hpp"

namespace fadiff {

// Scratch that every pack fills anew.
struct Tiles {
    std::vector<Lanes> below, across;                  // [L][D]; below a boundary (the tile of one receiver), and of all
                                                       // its receivers together
    std::vector<Lanes> size, below_size, across_size;  // [L][T]; words of a level's tile and of these boxes
    std::vector<Lanes> fan;                            // [L]; receivers below one instance
    std::vector<Lanes> used_x, used_y;                 // [L + 1]; instances in use, entry 0: the arithmetic
    Lanes cycles;                                      // product of all temporal loops

    explicit Tiles(const Layer& layer);
    Lanes instances(int level) const { return used_x[level + 1] * used_y[level + 1]; }
};

void lay_tiles(const Layer& layer, const MappingPack& pack, Tiles& tiles);

// Product of the spatial factors of some dimensions below a level.
inline Lanes spatial_product(const Layer& layer, const MappingPack& pack, int level, Dims dims) {
    Lanes product = 1.0;
    for (Dims left = dims & pack.spatial_dims(level); left; left &= left - 1)
        product *= pack.spatial(level, layer.dims)[__builtin_ctzll(left)];
    return product;
}

// Extent of one rank of a box [D], of one mapping or of eight: 1 + sum of coefficient * (points - 1).
template <typename Points>
inline Points extent(const Rank& rank, const Points* box) {
    if (rank.single >= 0) return box[rank.single];
    Points reach = -rank.surplus;
    for (const Rank::Term& term : rank.terms)
        reach += term.coefficient == 1 ? box[term.dim] : box[term.dim] * term.coefficient;
    return reach;
}

}  // namespace fadiff
