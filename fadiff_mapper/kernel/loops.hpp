// The loops and tiles of one mapping: what tile_boxes.py, temporal_reuse.py (sorted_loops) and energy_latency.py (usage)
// compute for batches.

#pragma once

#include <vector>

#include "mapping.hpp"

namespace fadiff {

// Scratch that every mapping fills anew.
struct Loops {
    // Boxes of points, [L][D]: below a boundary (the tile of one receiver), and of all its receivers together.
    std::vector<double> below, across;
    // Words of boxes, [L][T]: of the tile of a level, below its boundary, and across all receivers.
    std::vector<double> size, below_size, across_size;
    std::vector<Dims> fanned;           // [L]; dimensions with a spatial loop below the level
    std::vector<double> fan;            // [L]; receivers below one instance of the level
    std::vector<double> used_x, used_y; // [L + 1]; instances in use, entry 0: the arithmetic
    double cycles = 1;                  // product of all temporal loops

    // Temporal loops of several iterations, innermost first, S of them.
    int count = 0;
    std::vector<int> level, dim;        // [S]
    std::vector<double> bound, outside; // [S], [S + 1]; outside: iterations of a loop and all loops further out
    std::vector<int> start;             // [L]; the innermost loop at or outside each level

    explicit Loops(const Layer& layer);
};

// Boxes, words, instances in use and loops of a mapping.
void lay_out(const Layer& layer, const Mapping& mapping, Loops& loops);

// Receivers below a level that differ in some of the given dimensions: the product of their spatial factors.
inline double spatial_product(const Layer& layer, const Mapping& mapping, int level, Dims dims) {
    const double* spatial = mapping.spatial(level, layer.dims);
    double product = 1;
    for (int d = 0; d < layer.dims; ++d)
        if (dims >> d & 1) product *= spatial[d];
    return product;
}

}  // namespace fadiff
