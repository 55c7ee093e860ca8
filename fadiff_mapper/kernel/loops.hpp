// The loops of one mapping, for the parts that go through them one by one: windows that slide and receivers that differ.

#pragma once

#include "tiles.hpp"

namespace fadiff {

// Scratch that every mapping fills anew.
struct Loops {
    std::vector<double> below, across;  // [L][D]; boxes of points, see Tiles
    std::vector<Dims> fanned;           // [L]; dimensions with a spatial loop below the level
    std::vector<double> fan;            // [L]; receivers below one instance of the level

    // Temporal loops of several iterations, innermost first, S of them.
    int count = 0;
    std::vector<int> level, dim;        // [S]
    std::vector<double> bound;          // [S]
    std::vector<int> start;             // [L]; the innermost loop at or outside each level

    explicit Loops(const Layer& layer);
};

// The loops of one lane.
void line_up(const Layer& layer, const MappingPack& pack, const Tiles& tiles, int lane, Loops& loops);

// Receivers below a level that differ in some of the given dimensions: the product of their spatial factors.
inline double spatial_product(const Layer& layer, const Mapping& mapping, int level, Dims dims) {
    const double* spatial = mapping.spatial(level, layer.dims);
    double product = 1;
    for (; dims; dims &= dims - 1) product *= spatial[__builtin_ctzll(dims)];
    return product;
}

}  // namespace fadiff
