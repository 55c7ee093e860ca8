// Eight mappings of a layer, lane by lane.

#pragma once

#include <vector>

#include "lanes.hpp"
#include "mapping.hpp"

namespace fadiff {

// A dimension per lane, as eight bytes.
struct DimLanes {
    std::uint8_t dim[LANES];

    // Whether all lanes hold the same dimension, as they nearly always do for neighbours of one mapping.
    bool uniform() const {
        std::uint64_t bytes;
        std::memcpy(&bytes, dim, sizeof bytes);
        return bytes == 0x0101010101010101u * dim[0];
    }
};

struct MappingPack {
    std::vector<Lanes> factor;                    // [2 L][D]
    std::vector<DimLanes> order;                  // [L][D]
    std::vector<Mask> on_y;                       // [L][D]
    std::vector<Mask> keep;                       // [L][T]
    std::vector<Dims> spatial_dims, temporal_dims;  // [L]; dimensions with a loop in some lane
    const Mapping* mapping[LANES];                // the mappings themselves
    int count = 0;                                // lanes in use; the others repeat the first

    explicit MappingPack(const Layer& layer)
        : factor(std::size_t(layer.places()) * layer.dims), order(std::size_t(layer.levels) * layer.dims),
          on_y(order.size()), keep(std::size_t(layer.levels) * layer.tensors), spatial_dims(layer.levels),
          temporal_dims(layer.levels) {}

    const Lanes* spatial(int level, int dims) const { return factor.data() + std::size_t(2 * level) * dims; }
    const Lanes* temporal(int level, int dims) const { return factor.data() + std::size_t(2 * level + 1) * dims; }
};

// The value of each lane's own dimension, from values by dimension.
inline Lanes at_dims(const Lanes* by_dim, const DimLanes& dims) {
    if (dims.uniform()) return by_dim[dims.dim[0]];
    const double* flat = reinterpret_cast<const double*>(by_dim);
    return lanes_of([&](int lane) { return flat[dims.dim[lane] * LANES + lane]; });
}

// Whether each lane's dimension is in a set.
inline Mask in_set(Dims set, const DimLanes& dims) {
    if (dims.uniform()) return mask_of(set >> dims.dim[0] & 1);
    return mask_where([&](int lane) { return set >> dims.dim[lane] & 1; });
}

// Lays mappings side by side.
inline void fill_pack(const Layer& layer, const Mapping* const* mappings, int count, MappingPack& pack) {
    pack.count = count;
    for (int lane = 0; lane < LANES; ++lane) pack.mapping[lane] = mappings[lane < count ? lane : 0];
    const std::size_t factors = pack.factor.size(), loops = pack.order.size(), cells = pack.keep.size();
    for (int lane = 0; lane < LANES; ++lane) {
        const Mapping& own = *pack.mapping[lane];
        double* factor = reinterpret_cast<double*>(pack.factor.data()) + lane;
        std::uint8_t* order = pack.order[0].dim + lane;
        std::int64_t* keep = reinterpret_cast<std::int64_t*>(pack.keep.data()) + lane;
        for (std::size_t i = 0; i < factors; ++i) factor[i * LANES] = own.factor[i];
        for (std::size_t i = 0; i < loops; ++i) order[i * LANES] = own.order[i];
        for (std::size_t i = 0; i < cells; ++i) keep[i * LANES] = -std::int64_t(own.keep[i]);
    }
    for (int level = 0; level < layer.levels; ++level) {
        Dims spatial = 0, temporal = 0;
        for (int lane = 0; lane < count; ++lane) {
            spatial |= mappings[lane]->looping[2 * level];
            temporal |= mappings[lane]->looping[2 * level + 1];
        }
        for (Dims left = spatial; left; left &= left - 1) {
            const std::size_t at = std::size_t(level) * layer.dims + __builtin_ctzll(left);
            pack.on_y[at] = mask_where([&](int lane) { return pack.mapping[lane]->on_y[at]; });
        }
        pack.spatial_dims[level] = spatial;
        pack.temporal_dims[level] = temporal;
    }
}

}  // namespace fadiff
