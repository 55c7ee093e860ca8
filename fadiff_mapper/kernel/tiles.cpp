#include "tiles.hpp"

#include <algorithm>

namespace fadiff {

Tiles::Tiles(const Layer& layer)
    : below(std::size_t(layer.levels + 1) * layer.dims), across(below.size()),
      size(std::size_t(layer.levels) * layer.tensors), below_size(size.size()), across_size(size.size()),
      fan(layer.levels), used_x(layer.levels + 1), used_y(layer.levels + 1) {}

// Words of a box in every data space. Where none of the dimensions that grew is relevant they stay those of the box `inside`.
static void volumes(const Layer& layer, const Lanes* box, Dims grown, const Lanes* inside, Lanes* words) {
    for (int t = 0; t < layer.tensors; ++t)
        words[t] = grown & layer.spaces[t].relevant ? volume(layer.spaces[t], box) : inside[t];
}

void lay_tiles(const Layer& layer, const MappingPack& pack, Tiles& tiles) {
    const int dims = layer.dims, tensors = layer.tensors;
    tiles.cycles = 1.0;
    std::fill_n(tiles.below.begin(), dims, Lanes(1.0));
    std::fill_n(tiles.below_size.begin(), tensors, Lanes(1.0));
    for (int level = 0; level < layer.levels; ++level) {
        const std::size_t at = std::size_t(level) * dims, cell = std::size_t(level) * tensors;
        const Lanes *spatial = pack.spatial(level, dims), *temporal = pack.temporal(level, dims);
        Lanes *below = &tiles.below[at], *across = &tiles.across[at], *whole = below + dims;
        Lanes fan = 1.0, on_x = 1.0;
        std::copy_n(below, dims, across);
        for (const int d : members(pack.spatial_dims(level))) {
            across[d] *= spatial[d];
            fan *= spatial[d];
            on_x *= select(pack.on_y[at + d], 1.0, spatial[d]);
        }
        tiles.fan[level] = fan;
        tiles.used_x[level] = on_x;
        tiles.used_y[level] = pack.spatial_dims(level) ? fan / on_x : Lanes(1.0);
        volumes(layer, across, pack.spatial_dims(level), &tiles.below_size[cell], &tiles.across_size[cell]);
        std::copy_n(across, dims, whole);
        for (const int d : members(pack.temporal_dims(level))) {
            whole[d] *= temporal[d];
            tiles.cycles *= temporal[d];
        }
        volumes(layer, whole, pack.temporal_dims(level), &tiles.across_size[cell], &tiles.size[cell]);
        if (level + 1 < layer.levels) std::copy_n(&tiles.size[cell], tensors, &tiles.below_size[cell + tensors]);
    }
    // Instances in use: the product of all fan-outs further out; above, entry l held the fan-out of level l.
    Lanes x = 1.0, y = 1.0;
    for (int level = layer.levels; level >= 0; --level) {
        if (level < layer.levels) x *= tiles.used_x[level], y *= tiles.used_y[level];
        tiles.used_x[level] = x;
        tiles.used_y[level] = y;
    }
}

Loops::Loops(const Layer& layer)
    : dim(std::size_t(layer.levels) * layer.dims), bound(dim.size()), points(dim.size()), start(layer.levels),
      standing(layer.dims) {}

FanOut::FanOut(const Layer& layer) : spatial(layer.dims), below(layer.dims), order(layer.dims), on_y(layer.dims) {}

void line_up(const Layer& layer, const MappingPack& pack, const Tiles& tiles, int lane, Loops& loops) {
    int count = 0;
    for (int level = 0; level < layer.levels; ++level) {
        const std::size_t first = std::size_t(level) * layer.dims;
        const Lanes* temporal = pack.temporal(level, layer.dims);
        loops.start[level] = count;
        Dims taken = 0;  // positions
        for (const int d : members(pack.temporal_dims(level))) {
            if (!(temporal[d][lane] > 1)) continue;
            const int position = int(pack.position[first + d][lane]);
            loops.standing[position] = d;
            taken |= Dims(1) << position;
        }
        for (const int position : members(taken)) {
            const int d = loops.standing[position];
            loops.dim[count] = d;
            loops.points[count] = tiles.across[first + d][lane];
            loops.bound[count++] = temporal[d][lane];
        }
    }
    loops.count = count;
}

void measure(const Layer& layer, int level, FanOut& fan_out) {
    fan_out.level = level;
    fan_out.fanned = 0;
    double extent[2] = {1, 1};
    for (int d = 0; d < layer.dims; ++d) {
        fan_out.fanned |= Dims(fan_out.spatial[d] > 1) << d;
        extent[fan_out.on_y[d] != 0] *= fan_out.spatial[d];
    }
    fan_out.fan = extent[0] * extent[1];
    fan_out.width = int(std::min(std::max(extent[0], layer.level[level].fanout_x), MOST_UNITS));
    fan_out.height = int(std::min(std::max(extent[1], layer.level[level].fanout_y), MOST_UNITS));
}

void spread_out(const Layer& layer, const MappingPack& pack, const Tiles& tiles, int lane, int level, FanOut& fan_out) {
    const std::size_t first = std::size_t(level) * layer.dims;
    const Lanes* spatial = pack.spatial(level, layer.dims);
    for (int d = 0; d < layer.dims; ++d) {
        fan_out.spatial[d] = spatial[d][lane];
        fan_out.below[d] = tiles.below[first + d][lane];
        fan_out.order[d] = pack.spatial_order[(first + d) * LANES + lane];
        fan_out.on_y[d] = pack.on_y[first + d][lane];
    }
    measure(layer, level, fan_out);
}

}  // namespace fadiff
