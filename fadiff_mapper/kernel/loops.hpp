// The loops of one mapping, for the parts that go through them one by one: windows that slide and receivers that differ.

#pragma once

#include "tiles.hpp"

namespace fadiff {

// Temporal loops of several iterations, innermost first, S of them. Scratch that every mapping fills anew.
struct Loops {
    int count = 0;
    std::vector<int> dim;               // [S]
    std::vector<double> bound, points;  // [S]; iterations, and points of the dimension by which one iteration advances
    std::vector<int> start;             // [L]; the innermost loop at or outside each level
    std::vector<int> standing;          // [D]; scratch

    explicit Loops(const Layer& layer);
};

// The spatial loops below one level. Scratch that every mapping fills anew.
struct FanOut {
    int level = -1;
    double fan = 1;                         // receivers below one instance of the level
    Dims fanned = 0;                        // dimensions with a loop of several iterations
    std::vector<double> spatial, below;     // [D]; factors; points of one receiver's tile
    std::vector<std::uint8_t> order, on_y;  // [D]; as in Mapping
    int width = 1, height = 1;              // of the hardware's grid, or of the mapped one where that is larger

    explicit FanOut(const Layer& layer);
};

// The loops of one lane.
void line_up(const Layer& layer, const MappingPack& pack, const Tiles& tiles, int lane, Loops& loops);
void spread_out(const Layer& layer, const MappingPack& pack, const Tiles& tiles, int lane, int level, FanOut& fan_out);

// Receivers that differ in some of the given dimensions: the product of their spatial factors.
inline double spatial_product(const FanOut& fan_out, Dims dims) {
    double product = 1;
    for (; dims; dims &= dims - 1) product *= fan_out.spatial[__builtin_ctzll(dims)];
    return product;
}

}  // namespace fadiff
