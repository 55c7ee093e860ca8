#include "pack.hpp"

#include "columns.hpp"

namespace fadiff {

// Single numbers of lanes, [...][LANES].
static double* flat(std::vector<Lanes>& lanes) { return reinterpret_cast<double*>(lanes.data()); }
static std::int64_t* flat(std::vector<Mask>& masks) { return reinterpret_cast<std::int64_t*>(masks.data()); }

void lay_room(const RoomColumns& rooms, std::size_t column, int lane, RoomPack& pack) {
    for (std::size_t level = 0; level < pack.words.size(); ++level)
        flat(pack.words)[level * LANES + lane] = rooms.words[level * rooms.size + column];
    for (std::size_t cell = 0; cell < pack.counted.size(); ++cell)
        flat(pack.counted)[cell * LANES + lane] = -std::int64_t(rooms.counted[cell * rooms.size + column]);
}

void pack_mappings(const Layer& layer, const Mapping* const* mappings, int count, MappingPack& pack) {
    pack.count = count;
    std::fill(pack.looping.begin(), pack.looping.end(), Dims(0));
    for (int lane = 0; lane < LANES; ++lane) {
        const Mapping& own = *mappings[lane < count ? lane : 0];
        for (int place = 0; place < layer.places(); ++place)
            for (int d = 0; d < layer.dims; ++d) lay_factor(layer, own, place, d, lane, pack);
        for (int level = 0; level < layer.levels; ++level) {
            if (pack.whole() || own.looping[2 * level + 1]) lay_order(layer, own, level, lane, pack);
            if (pack.whole() || own.looping[2 * level]) lay_layout(layer, own, level, lane, pack);
        }
        for (int t = 0; t < layer.tensors; ++t) lay_keep(layer, own, t, lane, pack);
    }
}

void pack_mapping(const Layer& layer, const Mapping& mapping, MappingPack& pack) {
    for (std::size_t at = 0; at < pack.factor.size(); ++at) pack.factor[at] = mapping.factor[at];
    for (std::size_t at = 0; at < pack.last.size(); ++at) pack.last[at] = mapping.last[at];
    for (int level = 0; level < layer.levels; ++level) {
        const std::size_t first = std::size_t(level) * layer.dims;
        for (int at = 0; at < layer.dims; ++at) pack.position[first + mapping.order[first + at]] = at;
    }
    for (int level = 0; level < layer.levels; ++level) {
        if (!pack.whole() && !layer.level[level].has_fanout()) continue;  // no spatial loops, so no layout is read
        const std::size_t first = std::size_t(level) * layer.dims;
        for (std::size_t at = first; at < first + layer.dims; ++at) {
            if (pack.whole()) std::memset(&pack.order[at * LANES], mapping.order[at], LANES);
            pack.on_y[at] = mask_of(mapping.on_y[at]);
            std::memset(&pack.spatial_order[at * LANES], mapping.spatial_order[at], LANES);
        }
    }
    for (int t = 0; t < layer.tensors; ++t) {
        lay_keep(layer, mapping, t, 0, pack);
        for (std::size_t at = t; at < pack.keep.size(); at += layer.tensors) pack.keep[at] = mask_of(pack.keep[at][0]);
    }
    pack.looping = mapping.looping;
}

void lay_factor(const Layer& layer, const Mapping& mapping, int place, int dim, int lane, MappingPack& pack) {
    const std::size_t at = std::size_t(place) * layer.dims + dim;
    flat(pack.factor)[at * LANES + lane] = mapping.factor[at];
    if (!pack.last.empty()) flat(pack.last)[at * LANES + lane] = mapping.last[at];
    pack.looping[place] |= mapping.looping[place];
}

void lay_order(const Layer& layer, const Mapping& mapping, int level, int lane, MappingPack& pack) {
    const std::size_t first = std::size_t(level) * layer.dims;
    for (int at = 0; at < layer.dims; ++at) {
        const std::uint8_t dim = mapping.order[first + at];
        if (pack.whole()) pack.order[(first + at) * LANES + lane] = dim;
        flat(pack.position)[(first + dim) * LANES + lane] = at;
    }
}

void lay_layout(const Layer& layer, const Mapping& mapping, int level, int lane, MappingPack& pack) {
    const std::size_t first = std::size_t(level) * layer.dims;
    for (std::size_t at = first; at < first + layer.dims; ++at) {
        flat(pack.on_y)[at * LANES + lane] = -std::int64_t(mapping.on_y[at]);
        pack.spatial_order[at * LANES + lane] = mapping.spatial_order[at];
    }
}

// Tells of each level whether it holds a data space, the outermost one first: it keeps the data space, and coalesces it or lies
// inside of a level that does (model/access_counts.py:holding). `coalesced`: false.
template <typename Kept, typename Read, typename Visit>
static void each_held(const Layer& layer, int tensor, Kept coalesced, Read keep, Visit visit) {
    for (int level = layer.levels - 1; level >= 0; --level) {
        const std::size_t at = std::size_t(level) * layer.tensors + tensor;
        const Kept own = keep(at);
        visit(at, layer.coalesced[at] ? own : own & coalesced);
        if (layer.coalesced[at]) coalesced = coalesced | own;
    }
}

void lay_keep(const Layer& layer, const Mapping& mapping, int tensor, int lane, MappingPack& pack) {
    each_held(layer, tensor, false, [&](std::size_t at) { return bool(mapping.keep[at]); },
              [&](std::size_t at, bool held) { flat(pack.keep)[at * LANES + lane] = -std::int64_t(held); });
}

// Whole numbers of one row of a batch in the lanes.
struct RowNumbers {
    Bits parts[PARTS];
};

// Numbers of one row in the lanes, before they lie in the target's vectors.
typedef std::int8_t Bytes __attribute__((vector_size(LANES)));
typedef std::int64_t Row __attribute__((vector_size(8 * LANES)));

// Columns of a batch that lie in the lanes: neighbouring ones; in a batch's end, which is not `FULL`, the first again.
template <bool FULL>
struct Columns {
    std::size_t first;
    int count;

    template <typename T, typename Into>
    void read(const T* row, Into* into) const {
        for (int lane = 0; lane < LANES; ++lane) into[lane] = Into(row[first + (FULL || lane < count ? lane : 0)]);
    }
    template <typename Result, typename T>
    Result side_by_side(const T* row) const {
        alignas(64) T values[LANES];
        read(row, values);
        Result result;
        std::memcpy(result.parts, values, sizeof values);
        return result;
    }
    Lanes lanes(const double* row) const { return side_by_side<Lanes>(row); }
    RowNumbers numbers(const std::int64_t* row) const { return side_by_side<RowNumbers>(row); }
    Mask mask(const bool* row) const {
        bool values[LANES];
        read(row, values);
        Bytes bytes;
        std::memcpy(&bytes, values, sizeof values);
        const Row wide = -__builtin_convertvector(bytes, Row);
        Mask result;
        std::memcpy(result.parts, &wide, sizeof wide);
        return result;
    }
    void bytes(const std::int64_t* row, std::uint8_t* into) const {
        alignas(64) std::int64_t values[LANES];
        read(row, values);
        Row wide;
        std::memcpy(&wide, values, sizeof wide);
        const Bytes narrow = __builtin_convertvector(wide, Bytes);
        std::memcpy(into, &narrow, sizeof narrow);
    }
};

// Throws unless the D numbers of every lane, in `rows` [D][B], are those of all dimensions.
template <bool FULL>
static void check_order(const std::int64_t* rows, std::size_t batch, int dims, const Columns<FULL>& columns) {
    Mask known = mask_of(true);
    RowNumbers met{};
    for (int at = 0; at < dims; ++at) {
        const RowNumbers here = columns.numbers(rows + at * batch);
        for (int i = 0; i < PARTS; ++i) {
            known.parts[i] &= (here.parts[i] >= 0) & (here.parts[i] < dims);
            met.parts[i] |= (Bits{} + 1) << (here.parts[i] & 63);
        }
    }
    const std::int64_t all = std::int64_t(~Dims(0) >> (64 - dims));
    for (int i = 0; i < PARTS; ++i) known.parts[i] &= met.parts[i] == all;
    if (!known.all()) throw std::invalid_argument(WRONG_ORDER);
}

// Where the temporal loops of some dimensions stand in one level: the inverse of their order.
template <bool FULL>
static void find_positions(const std::int64_t* rows, std::size_t batch, int dims, Dims looping,
                           const Columns<FULL>& columns, Lanes* position) {
    for (const int d : members(looping)) {
        Lanes found = 0.0;
        for (int at = 0; at < dims; ++at) {
            const RowNumbers here = columns.numbers(rows + at * batch);
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
        const std::size_t cell = std::size_t(level) * dims, row = cell * batch.size;
        Dims spatial = 0, temporal = 0;
        for (int d = 0; d < dims; ++d) {
            Lanes &below = pack.factor[2 * cell + d], &above = pack.factor[2 * cell + dims + d];
            below = columns.lanes(batch.factor[SPATIAL] + row + d * batch.size);
            above = columns.lanes(batch.factor[TEMPORAL] + row + d * batch.size);
            counted = counted & (below >= 1.0) & (above >= 1.0);  // false for no number
            for (int half = 0; half < 2 && batch.residual(); ++half) {
                const Lanes last = columns.lanes(batch.last[half] + row + d * batch.size);
                pack.last[2 * cell + half * dims + d] = last;
                counted = counted & (last >= 1.0) & ((half == SPATIAL ? below : above) >= last);
            }
            spatial |= Dims((below > 1.0).any()) << d;
            temporal |= Dims((above > 1.0).any()) << d;
        }
        pack.looping[2 * level] = spatial;
        pack.looping[2 * level + 1] = temporal;
        check_order(batch.order[TEMPORAL] + row, batch.size, dims, columns);
        find_positions(batch.order[TEMPORAL] + row, batch.size, dims, temporal, columns, &pack.position[cell]);
        for (int at = 0; at < dims && pack.whole(); ++at)
            columns.bytes(batch.order[TEMPORAL] + row + at * batch.size, &pack.order[(cell + at) * LANES]);
        if (spatial || (pack.whole() && (layer.level[level].has_fanout() || batch.residual()))) {
            check_order(batch.order[SPATIAL] + row, batch.size, dims, columns);
            for (int at = 0; at < dims; ++at) {
                const std::size_t own = row + at * batch.size;
                columns.bytes(batch.order[SPATIAL] + own, &pack.spatial_order[(cell + at) * LANES]);
                pack.on_y[cell + at] = columns.mask(batch.on_y + own);
            }
        }
    }
    for (int t = 0; t < layer.tensors; ++t)
        each_held(layer, t, mask_of(false), [&](std::size_t at) { return columns.mask(batch.keep + at * batch.size); },
                  [&](std::size_t at, const Mask& held) { pack.keep[at] = held; });
    if (!counted.all()) throw std::invalid_argument(WRONG_FACTOR);
}

void pack_columns(const Layer& layer, const Batch& batch, std::size_t first, int count, MappingPack& pack) {
    pack.count = count;
    if (count == LANES) pack_all(layer, batch, Columns<true>{first, count}, pack);
    else pack_all(layer, batch, Columns<false>{first, count}, pack);
}

}  // namespace fadiff
