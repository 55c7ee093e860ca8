#include "pack.hpp"

namespace fadiff {

// Single numbers of lanes, [...][LANES].
static double* flat(std::vector<Lanes>& lanes) { return reinterpret_cast<double*>(lanes.data()); }
static std::int64_t* flat(std::vector<Mask>& masks) { return reinterpret_cast<std::int64_t*>(masks.data()); }

void lay_room(const Room& room, int lane, RoomPack& pack) {
    for (std::size_t level = 0; level < room.words.size(); ++level) flat(pack.words)[level * LANES + lane] = room.words[level];
    for (std::size_t cell = 0; cell < room.counted.size(); ++cell)
        flat(pack.counted)[cell * LANES + lane] = -std::int64_t(room.counted[cell] != 0);
}

void pack_mappings(const Layer& layer, const Mapping* const* mappings, int count, MappingPack& pack) {
    const Mapping* own[LANES];
    for (int lane = 0; lane < LANES; ++lane) own[lane] = mappings[lane < count ? lane : 0];
    pack.count = count;
    const double* factors[LANES];
    for (int lane = 0; lane < LANES; ++lane) factors[lane] = own[lane]->factor.data();
    for (std::size_t at = 0; at < pack.factor.size(); ++at)
        pack.factor[at] = lanes_of([&](int lane) { return factors[lane][at]; });
    for (std::size_t at = 0; at < pack.last.size(); ++at)
        pack.last[at] = lanes_of([&](int lane) { return own[lane]->last[at]; });
    pack.looping = own[0]->looping;
    for (int lane = 1; lane < count; ++lane)
        for (std::size_t place = 0; place < pack.looping.size(); ++place) pack.looping[place] |= own[lane]->looping[place];
    for (int level = 0; level < layer.levels; ++level)
        for (int lane = 0; lane < LANES; ++lane) {
            if (pack.whole() || pack.temporal_dims(level)) lay_order(layer, *own[lane], level, lane, pack);
            if (pack.whole() || pack.spatial_dims(level)) lay_layout(layer, *own[lane], level, lane, pack);
        }
    for (int t = 0; t < layer.tensors; ++t)
        for (int lane = 0; lane < LANES; ++lane) lay_keep(layer, *own[lane], t, lane, pack);
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

void read_lane(const Layer& layer, const MappingPack& pack, int lane, Mapping& mapping) {
    mapping.last.resize(pack.last.size());
    for (std::size_t at = 0; at < pack.factor.size(); ++at) {
        mapping.factor[at] = pack.factor[at][lane];
        if (!pack.last.empty()) mapping.last[at] = pack.last[at][lane];
    }
    for (std::size_t at = 0; at < mapping.order.size(); ++at) {
        mapping.order[at] = pack.order[at * LANES + lane];
        mapping.spatial_order[at] = pack.spatial_order[at * LANES + lane];
        mapping.on_y[at] = pack.on_y[at][lane];
    }
    mapping.find_loops(layer.dims);
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

void lay_keep(const Layer& layer, const Mapping& mapping, int tensor, int lane, MappingPack& pack) {
    bool coalesced = false;
    for (int level = layer.levels - 1; level >= 0; --level) {
        const std::size_t at = std::size_t(level) * layer.tensors + tensor;
        const bool keep = mapping.keep[at];
        flat(pack.keep)[at * LANES + lane] = -std::int64_t(keep && (layer.coalesced[at] || coalesced));
        coalesced |= keep && layer.coalesced[at];
    }
}

}  // namespace fadiff
