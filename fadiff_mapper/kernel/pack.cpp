#include "pack.hpp"

#include <algorithm>
#include <stdexcept>

namespace fadiff {

// Single numbers of lanes, [...][LANES].
static double* flat(std::vector<Lanes>& lanes) { return reinterpret_cast<double*>(lanes.data()); }
static std::int64_t* flat(std::vector<Mask>& masks) { return reinterpret_cast<std::int64_t*>(masks.data()); }

// Columns of a batch that lie in the lanes: neighbouring ones, the first again where the batch ends.
struct Columns {
    std::size_t first;
    int count;

    template <typename T>
    T at(const T* row, int lane) const { return row[first + (lane < count ? lane : 0)]; }
    Lanes lanes(const double* row) const {
        Lanes result;
        if (count == LANES) std::memcpy(result.parts, row + first, sizeof result.parts);
        else result = lanes_of([&](int lane) { return at(row, lane); });
        return result;
    }
    Mask mask(const bool* row) const {
        return mask_where([&](int lane) { return at(row, lane); });
    }
};

// Dimensions of the loops of one level, [D][LANES].
static void read_order(const Layer& layer, const std::int64_t* rows, std::size_t batch, const Columns& columns,
                       std::uint8_t* order) {
    bool known = true;
    for (int at = 0; at < layer.dims; ++at)
        for (int lane = 0; lane < LANES; ++lane) {
            const std::int64_t dim = columns.at(rows + at * batch, lane);
            known &= std::uint64_t(dim) < std::uint64_t(layer.dims);
            order[at * LANES + lane] = std::uint8_t(dim);
        }
    if (!known) throw std::invalid_argument("order: no such dimension");
}

void pack_columns(const Layer& layer, const Batch& batch, std::size_t first, int count, MappingPack& pack) {
    const int dims = layer.dims;
    const Columns columns{first, count};
    pack.count = count;
    for (int level = 0; level < layer.levels; ++level) {
        const std::size_t cell = std::size_t(level) * dims, row = cell * batch.batch;
        Dims spatial = 0, temporal = 0;
        for (int d = 0; d < dims; ++d) {
            Lanes &below = pack.factor[2 * cell + d], &above = pack.factor[2 * cell + dims + d];
            below = columns.lanes(batch.spatial + row + d * batch.batch);
            above = columns.lanes(batch.temporal + row + d * batch.batch);
            spatial |= Dims((below > 1.0).any()) << d;
            temporal |= Dims((above > 1.0).any()) << d;
        }
        pack.looping[2 * level] = spatial;
        pack.looping[2 * level + 1] = temporal;
        if (temporal) {  // where each lane's loops stand: the inverse of their order
            read_order(layer, batch.order + row, batch.batch, columns, pack.order.data());
            for (int at = 0; at < dims; ++at)
                for (int lane = 0; lane < LANES; ++lane)
                    flat(pack.position)[(cell + pack.order[at * LANES + lane]) * LANES + lane] = at;
        }
        if (spatial) {
            read_order(layer, batch.spatial_order + row, batch.batch, columns, &pack.spatial_order[cell * LANES]);
            for (int d = 0; d < dims; ++d) pack.on_y[cell + d] = columns.mask(batch.on_y + row + d * batch.batch);
        }
        for (int t = 0; t < layer.tensors; ++t) {
            const std::size_t kept = std::size_t(level) * layer.tensors + t;
            pack.keep[kept] = columns.mask(batch.keep + kept * batch.batch);
        }
    }
}

void pack_mapping(const Layer& layer, const Mapping& mapping, MappingPack& pack) {
    for (std::size_t at = 0; at < pack.factor.size(); ++at) pack.factor[at] = mapping.factor[at];
    for (int level = 0; level < layer.levels; ++level) {
        const std::size_t first = std::size_t(level) * layer.dims;
        for (int at = 0; at < layer.dims; ++at) pack.position[first + mapping.order[first + at]] = at;
    }
    for (std::size_t at = 0; at < pack.on_y.size(); ++at) {
        pack.on_y[at] = mask_of(mapping.on_y[at]);
        std::memset(&pack.spatial_order[at * LANES], mapping.spatial_order[at], LANES);
    }
    for (std::size_t at = 0; at < pack.keep.size(); ++at) pack.keep[at] = mask_of(mapping.keep[at]);
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
