// Boxes of points at every boundary and their words, and instances in use, of eight mappings (model/tiles.py); the loops of one
// mapping, for the parts that go through them one by one: windows that slide and receivers that differ.

#pragma once

#include "pack.hpp"

namespace fadiff {

// Scratch that every pack fills anew.
struct Tiles {
    std::vector<Lanes> below, across;                  // [L][D]; points below a boundary (the tile of one receiver), and of
                                                       // all receivers together
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
    for (const int d : members(dims & pack.spatial_dims(level))) product *= pack.spatial(level, layer.dims)[d];
    return product;
}

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

// Fills in number of receivers and grid of a fan-out whose factors, order and axes are set.
void measure(const Layer& layer, int level, FanOut& fan_out);

// The loops of one lane.
void line_up(const Layer& layer, const MappingPack& pack, const Tiles& tiles, int lane, Loops& loops);
void spread_out(const Layer& layer, const MappingPack& pack, const Tiles& tiles, int lane, int level, FanOut& fan_out);

// Receivers that differ in some of the given dimensions: the product of their spatial factors.
inline double spatial_product(const FanOut& fan_out, Dims dims) {
    double product = 1;
    for (const int d : members(dims)) product *= fan_out.spatial[d];
    return product;
}

}  // namespace fadiff
