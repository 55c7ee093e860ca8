#include "pack.hpp"

#include <algorithm>
#include <stdexcept>

namespace fadiff {

// Single numbers of lanes, [...][LANES].
static double* flat(std::vector<Lanes>& lanes) { return reinterpret_cast<double*>(lanes.data()); }
static std::int64_t* flat(std::vector<Mask>& masks) { return reinterpret_cast<std::int64_t*>(masks.data()); }

// One row of the batch's columns as lanes.
template <typename T>
static Lanes lanes_from(const T* row, const int* column) {
    if (column[LANES - 1]) return lanes_of([&](int lane) { return row[lane]; });  // neighbouring columns: one load
    return lanes_of([&](int lane) { return row[column[lane]]; });
}
static Mask mask_from(const bool* row, const int* column) {
    return mask_where([&](int lane) { return row[column[lane]]; });
}

static std::int64_t checked(const Layer& layer, std::int64_t dim) {
    if (dim < 0 || dim >= layer.dims) throw std::invalid_argument("order: no such dimension");
    return dim;
}

// Where each lane's temporal loops of a level stand: the inverse of their order.
static void lay_positions(const Layer& layer, const Batch& batch, int level, std::size_t first, const int* column,
                          MappingPack& pack) {
    const int dims = layer.dims;
    double* position = flat(pack.position) + std::size_t(level) * dims * LANES;
    for (int at = 0; at < dims; ++at) {
        const std::int64_t* order = batch.order + (std::size_t(level) * dims + at) * batch.batch + first;
        for (int lane = 0; lane < LANES; ++lane)
            position[checked(layer, order[column[lane]]) * LANES + lane] = at;
    }
}

void pack_columns(const Layer& layer, const Batch& batch, std::size_t first, int count, MappingPack& pack) {
    const int dims = layer.dims;
    int column[LANES];
    for (int lane = 0; lane < LANES; ++lane) column[lane] = lane < count ? lane : 0;
    pack.count = count;
    for (int level = 0; level < layer.levels; ++level) {
        Dims spatial = 0, temporal = 0;
        for (int d = 0; d < dims; ++d) {
            const std::size_t row = (std::size_t(level) * dims + d) * batch.batch + first;
            Lanes& below = pack.factor[std::size_t(2 * level) * dims + d];
            Lanes& above = pack.factor[std::size_t(2 * level + 1) * dims + d];
            below = lanes_from(batch.spatial + row, column);
            above = lanes_from(batch.temporal + row, column);
            spatial |= Dims((below > 1.0).any()) << d;
            temporal |= Dims((above > 1.0).any()) << d;
        }
        pack.looping[2 * level] = spatial;
        pack.looping[2 * level + 1] = temporal;
        if (temporal) lay_positions(layer, batch, level, first, column, pack);
        for (int d = 0; d < dims && spatial; ++d) {
            const std::size_t at = std::size_t(level) * dims + d, row = at * batch.batch + first;
            pack.on_y[at] = mask_from(batch.on_y + row, column);
            for (int lane = 0; lane < LANES; ++lane)
                pack.spatial_order[at * LANES + lane] = std::uint8_t(checked(layer, batch.spatial_order[row + column[lane]]));
        }
        for (int t = 0; t < layer.tensors; ++t) {
            const std::size_t at = std::size_t(level) * layer.tensors + t;
            pack.keep[at] = mask_from(batch.keep + at * batch.batch + first, column);
        }
    }
}

void pack_mapping(const Layer& layer, const Mapping& mapping, MappingPack& pack) {
    lay_mapping(layer, mapping, 0, pack);
    for (Lanes& factor : pack.factor) factor = factor[0];
    for (Lanes& position : pack.position) position = position[0];
    for (Mask& on_y : pack.on_y) on_y = mask_of(on_y[0]);
    for (Mask& keep : pack.keep) keep = mask_of(keep[0]);
    for (std::size_t at = 0; at < pack.spatial_order.size(); at += LANES)
        std::memset(&pack.spatial_order[at], pack.spatial_order[at], LANES);
    pack.looping = mapping.looping;
}

void lay_factor(const Layer& layer, const Mapping& mapping, int place, int dim, int lane, MappingPack& pack) {
    const std::size_t at = std::size_t(place) * layer.dims + dim;
    flat(pack.factor)[at * LANES + lane] = mapping.factor[at];
    pack.looping[place] |= mapping.looping[place];
}

void lay_order(const Layer& layer, const Mapping& mapping, int level, int lane, MappingPack& pack) {
    const std::size_t first = std::size_t(level) * layer.dims;
    for (int at = 0; at < layer.dims; ++at) flat(pack.position)[(first + mapping.order[first + at]) * LANES + lane] = at;
}

void lay_layout(const Layer& layer, const Mapping& mapping, int level, int lane, MappingPack& pack) {
    const std::size_t first = std::size_t(level) * layer.dims;
    for (std::size_t at = first; at < first + layer.dims; ++at) {
        flat(pack.on_y)[at * LANES + lane] = -std::int64_t(mapping.on_y[at]);
        pack.spatial_order[at * LANES + lane] = mapping.spatial_order[at];
    }
}

void lay_keep(const Layer& layer, const Mapping& mapping, int level, int tensor, int lane, MappingPack& pack) {
    const std::size_t at = std::size_t(level) * layer.tensors + tensor;
    flat(pack.keep)[at * LANES + lane] = -std::int64_t(mapping.keep[at]);
}

void lay_mapping(const Layer& layer, const Mapping& mapping, int lane, MappingPack& pack) {
    for (int place = 0; place < layer.places(); ++place)
        for (int d = 0; d < layer.dims; ++d) lay_factor(layer, mapping, place, d, lane, pack);
    for (int level = 0; level < layer.levels; ++level) {
        lay_order(layer, mapping, level, lane, pack);
        lay_layout(layer, mapping, level, lane, pack);
        for (int t = 0; t < layer.tensors; ++t) lay_keep(layer, mapping, level, t, lane, pack);
    }
}

}  // namespace fadiff
