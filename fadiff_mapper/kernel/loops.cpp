#include "loops.hpp"

#include <algorithm>

namespace fadiff {

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
        for (Dims left = pack.temporal_dims(level); left; left &= left - 1) {
            const int d = __builtin_ctzll(left);
            if (!(temporal[d][lane] > 1)) continue;
            const int position = int(pack.position[first + d][lane]);
            loops.standing[position] = d;
            taken |= Dims(1) << position;
        }
        for (; taken; taken &= taken - 1) {
            const int d = loops.standing[__builtin_ctzll(taken)];
            loops.dim[count] = d;
            loops.points[count] = tiles.across[first + d][lane];
            loops.bound[count++] = temporal[d][lane];
        }
    }
    loops.count = count;
}

void spread_out(const Layer& layer, const MappingPack& pack, const Tiles& tiles, int lane, int level, FanOut& fan_out) {
    const std::size_t first = std::size_t(level) * layer.dims;
    const Lanes* spatial = pack.spatial(level, layer.dims);
    fan_out.level = level;
    fan_out.fan = tiles.fan[level][lane];
    fan_out.fanned = 0;
    double extent[2] = {1, 1};
    for (int d = 0; d < layer.dims; ++d) {
        fan_out.spatial[d] = spatial[d][lane];
        fan_out.below[d] = tiles.below[first + d][lane];
        fan_out.fanned |= Dims(fan_out.spatial[d] > 1) << d;
        fan_out.order[d] = pack.spatial_order[(first + d) * LANES + lane];
        fan_out.on_y[d] = pack.on_y[first + d][lane];
        extent[fan_out.on_y[d] != 0] *= fan_out.spatial[d];
    }
    fan_out.width = int(std::max(extent[0], layer.level[level].fanout_x));
    fan_out.height = int(std::max(extent[1], layer.level[level].fanout_y));
}

}  // namespace fadiff
