#include "loops.hpp"

namespace fadiff {

Loops::Loops(const Layer& layer)
    : below(std::size_t(layer.levels) * layer.dims), across(below.size()), fanned(layer.levels), fan(layer.levels),
      level(below.size()), dim(below.size()), bound(below.size()), start(layer.levels) {}

void line_up(const Layer& layer, const MappingPack& pack, const Tiles& tiles, int lane, Loops& loops) {
    const Mapping& mapping = *pack.mapping[lane];
    const int dims = layer.dims;
    for (std::size_t i = 0; i < loops.below.size(); ++i) {
        loops.below[i] = tiles.below[i][lane];
        loops.across[i] = tiles.across[i][lane];
    }
    int count = 0;
    for (int level = 0; level < layer.levels; ++level) {
        const double *spatial = mapping.spatial(level, dims), *temporal = mapping.temporal(level, dims);
        const std::uint8_t* order = &mapping.order[std::size_t(level) * dims];
        loops.fanned[level] = 0;
        for (Dims left = pack.spatial_dims[level]; left; left &= left - 1) {
            const int d = __builtin_ctzll(left);
            if (spatial[d] > 1) loops.fanned[level] |= Dims(1) << d;
        }
        loops.fan[level] = tiles.fan[level][lane];
        loops.start[level] = count;
        if (!pack.temporal_dims[level]) continue;
        for (int position = 0; position < dims; ++position) {
            const int d = order[position];
            if (temporal[d] > 1) {
                loops.level[count] = level;
                loops.dim[count] = d;
                loops.bound[count++] = temporal[d];
            }
        }
    }
    loops.count = count;
}

}  // namespace fadiff
