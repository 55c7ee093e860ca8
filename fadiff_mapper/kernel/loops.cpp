#include "loops.hpp"

#include <algorithm>

namespace fadiff {

Loops::Loops(const Layer& layer)
    : below(std::size_t(layer.levels) * layer.dims), across(below.size()),
      size(std::size_t(layer.levels) * layer.tensors), below_size(size.size()), across_size(size.size()),
      fanned(layer.levels), fan(layer.levels), used_x(layer.levels + 1), used_y(layer.levels + 1),
      level(below.size()), dim(below.size()), bound(below.size()), outside(below.size() + 1), start(layer.levels) {}

// Words of a box [D] in every data space: the product of the extents of its ranks.
static void volumes(const Layer& layer, const double* box, double* words) {
    for (int t = 0; t < layer.tensors; ++t) {
        double product = 1;
        for (const Rank& rank : layer.spaces[t].ranks) {
            double reach = -rank.surplus;
            for (const Rank::Term& term : rank.terms) reach += term.coefficient * box[term.dim];
            product *= reach;
        }
        words[t] = product;
    }
}

// The boxes of every boundary; words of a box are computed once and copied where no loop made it grow.
static void grow_boxes(const Layer& layer, const Mapping& mapping, Loops& loops) {
    const int dims = layer.dims, tensors = layer.tensors;
    double *below = loops.below.data(), *across = loops.across.data();
    std::fill(below, below + dims, 1.0);
    std::fill(loops.below_size.begin(), loops.below_size.begin() + tensors, 1.0);
    for (int level = 0; level < layer.levels; ++level, below += dims, across += dims) {
        const double *spatial = mapping.spatial(level, dims), *temporal = mapping.temporal(level, dims);
        double *below_size = &loops.below_size[std::size_t(level) * tensors], *across_size = &loops.across_size[std::size_t(level) * tensors];
        double *size = &loops.size[std::size_t(level) * tensors];
        Dims fanned = 0;
        double fan = 1, on_x = 1, iterations = 1;
        for (int d = 0; d < dims; ++d) {
            across[d] = below[d] * spatial[d];
            iterations *= temporal[d];
            if (spatial[d] > 1) {
                fanned |= Dims(1) << d;
                fan *= spatial[d];
                if (!mapping.on_y[std::size_t(level) * dims + d]) on_x *= spatial[d];
            }
        }
        loops.fanned[level] = fanned;
        loops.fan[level] = fan;
        loops.used_x[level] = on_x;
        loops.used_y[level] = fan / on_x;
        loops.cycles = level ? loops.cycles * iterations : iterations;
        if (fanned) volumes(layer, across, across_size);
        else std::copy(below_size, below_size + tensors, across_size);
        double whole[64];
        double* box = level + 1 < layer.levels ? below + dims : whole;
        for (int d = 0; d < dims; ++d) box[d] = across[d] * temporal[d];
        if (iterations > 1) volumes(layer, box, size);
        else std::copy(across_size, across_size + tensors, size);
        if (level + 1 < layer.levels) std::copy(size, size + tensors, below_size + tensors);
    }
}

// Temporal loops of several iterations from the innermost, and iterations from each loop outwards.
static void line_up(const Layer& layer, const Mapping& mapping, Loops& loops) {
    int count = 0;
    for (int level = 0; level < layer.levels; ++level) {
        const double* temporal = mapping.temporal(level, layer.dims);
        const std::uint8_t* order = &mapping.order[std::size_t(level) * layer.dims];
        loops.start[level] = count;
        for (int position = 0; position < layer.dims; ++position) {
            const int d = order[position];
            if (temporal[d] > 1) {
                loops.level[count] = level;
                loops.dim[count] = d;
                loops.bound[count++] = temporal[d];
            }
        }
    }
    loops.count = count;
    loops.outside[count] = 1;
    for (int s = count - 1; s >= 0; --s) loops.outside[s] = loops.outside[s + 1] * loops.bound[s];
}

void lay_out(const Layer& layer, const Mapping& mapping, Loops& loops) {
    grow_boxes(layer, mapping, loops);
    // Instances in use: the product of all fan-outs further out. Above, entry l held the fan-out of level l.
    double x = 1, y = 1;
    for (int level = layer.levels; level >= 0; --level) {
        if (level < layer.levels) x *= loops.used_x[level], y *= loops.used_y[level];
        loops.used_x[level] = x;
        loops.used_y[level] = y;
    }
    line_up(layer, mapping, loops);
}

}  // namespace fadiff
