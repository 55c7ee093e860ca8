#include "pack.hpp"

#include <algorithm>
#include <stdexcept>

namespace fadiff {

// Single numbers of lanes, [...][LANES].
static double* flat(std::vector<Lanes>& lanes) { return reinterpret_cast<double*>(lanes.data()); }
static std::int64_t* flat(std::vector<Mask>& masks) { return reinterpret_cast<std::int64_t*>(masks.data()); }

// Whole numbers of one row of a batch in the lanes.
struct Wholes {
    Bits parts[PARTS];
};

// Columns of a batch that lie in the lanes: neighbouring ones; in a batch's end, which is not `FULL`, the first again.
template <bool FULL>
struct Columns {
    std::size_t first;
    int count;

    template <typename T, typename Into>
    void read(const T* row, Into* into) const {
        for (int lane = 0; lane < LANES; ++lane) into[lane] = Into(row[first + (FULL || lane < count ? lane : 0)]);
    }
    Lanes lanes(const double* row) const {
        alignas(64) double values[LANES];
        read(row, values);
        Lanes result;
        std::memcpy(result.parts, values, sizeof values);
        return result;
    }
    Wholes wholes(const std::int64_t* row) const {
        alignas(64) std::int64_t values[LANES];
        read(row, values);
        Wholes result;
        std::memcpy(result.parts, values, sizeof values);
        return result;
    }
    Mask mask(const bool* row) const {
        alignas(64) std::int64_t values[LANES];
        read(row, values);
        Mask result;
        std::memcpy(result.parts, values, sizeof values);
        for (Bits& part : result.parts) part = -part;
        return result;
    }
};

// Throws unless the D numbers of every lane, in `rows` [D][B], are those of all dimensions.
template <bool FULL>
static void check_order(const std::int64_t* rows, std::size_t batch, int dims, const Columns<FULL>& columns) {
    Mask known = mask_of(true);
    Wholes met{};
    for (int at = 0; at < dims; ++at) {
        const Wholes here = columns.wholes(rows + at * batch);
        for (int i = 0; i < PARTS; ++i) {
            known.parts[i] &= (here.parts[i] >= 0) & (here.parts[i] < dims);
            met.parts[i] |= (Bits{} + 1) << (here.parts[i] & 63);
        }
    }
    const std::int64_t all = std::int64_t(~Dims(0) >> (64 - dims));
    for (int i = 0; i < PARTS; ++i) known.parts[i] &= met.parts[i] == all;
    if ((~known).any()) throw std::invalid_argument("order, spatial_order: not each dimension once");
}

// Where the temporal loops of some dimensions stand in one level: the inverse of their order.
template <bool FULL>
static void find_positions(const std::int64_t* rows, std::size_t batch, int dims, Dims looping,
                           const Columns<FULL>& columns, Lanes* position) {
    for (Dims left = looping; left; left &= left - 1) {
        const int d = __builtin_ctzll(left);
        Lanes found = 0.0;
        for (int at = 0; at < dims; ++at) {
            const Wholes here = columns.wholes(rows + at * batch);
            Mask it;
            for (int i = 0; i < PARTS; ++i) it.parts[i] = here.parts[i] == d;
            found = select(it, double(at), found);
        }
        position[d] = found;
    }
}

template <bool FULL>
static void pack_all(const Layer& layer, const Batch& batch, const Columns<FULL>& columns, MappingPack& pack) {
    const int dims = layer.dims;
    Mask counted = mask_of(true);
    for (int level = 0; level < layer.levels; ++level) {
        const std::size_t cell = std::size_t(level) * dims, row = cell * batch.batch;
        Dims spatial = 0, temporal = 0;
        for (int d = 0; d < dims; ++d) {
            Lanes &below = pack.factor[2 * cell + d], &above = pack.factor[2 * cell + dims + d];
            below = columns.lanes(batch.spatial + row + d * batch.batch);
            above = columns.lanes(batch.temporal + row + d * batch.batch);
            counted = counted & (below >= 1.0) & (above >= 1.0);  // false for no number
            spatial |= Dims((below > 1.0).any()) << d;
            temporal |= Dims((above > 1.0).any()) << d;
        }
        pack.looping[2 * level] = spatial;
        pack.looping[2 * level + 1] = temporal;
        check_order(batch.order + row, batch.batch, dims, columns);
        check_order(batch.spatial_order + row, batch.batch, dims, columns);
        find_positions(batch.order + row, batch.batch, dims, temporal, columns, &pack.position[cell]);
        if (spatial)
            for (int at = 0; at < dims; ++at) {
                const std::size_t own = row + at * batch.batch;
                columns.read(batch.spatial_order + own, &pack.spatial_order[(cell + at) * LANES]);
                pack.on_y[cell + at] = columns.mask(batch.on_y + own);
            }
        for (int t = 0; t < layer.tensors; ++t) {
            const std::size_t kept = std::size_t(level) * layer.tensors + t;
            pack.keep[kept] = columns.mask(batch.keep + kept * batch.batch);
        }
    }
    if ((~counted).any()) throw std::invalid_argument("temporal, spatial: a factor below 1");
}

void pack_columns(const Layer& layer, const Batch& batch, std::size_t first, int count, MappingPack& pack) {
    pack.count = count;
    if (count == LANES) pack_all(layer, batch, Columns<true>{first, count}, pack);
    else pack_all(layer, batch, Columns<false>{first, count}, pack);
}

void pack_mappings(const Layer& layer, const Mapping* const* mappings, int count, MappingPack& pack) {
    const Mapping* own[LANES];
    for (int lane = 0; lane < LANES; ++lane) own[lane] = mappings[lane < count ? lane : 0];
    pack.count = count;
    const double* factors[LANES];
    for (int lane = 0; lane < LANES; ++lane) factors[lane] = own[lane]->factor.data();
    for (std::size_t at = 0; at < pack.factor.size(); ++at)
        pack.factor[at] = lanes_of([&](int lane) { return factors[lane][at]; });
    pack.looping = own[0]->looping;
    for (int lane = 1; lane < count; ++lane)
        for (std::size_t place = 0; place < pack.looping.size(); ++place) pack.looping[place] |= own[lane]->looping[place];
    for (int level = 0; level < layer.levels; ++level)
        for (int lane = 0; lane < LANES; ++lane) {
            if (pack.temporal_dims(level)) lay_order(layer, *own[lane], level, lane, pack);
            if (pack.spatial_dims(level)) lay_layout(layer, *own[lane], level, lane, pack);
        }
    const std::uint8_t* keep[LANES];
    for (int lane = 0; lane < LANES; ++lane) keep[lane] = own[lane]->keep.data();
    for (std::size_t at = 0; at < pack.keep.size(); ++at)
        pack.keep[at] = mask_where([&](int lane) { return keep[lane][at]; });
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

}  // namespace fadiff
