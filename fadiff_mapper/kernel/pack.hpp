// Eight mappings of a layer, lane by lane: what an evaluation reads.

#pragma once

#include <vector>

#include "lanes.hpp"
#include "layer.hpp"

namespace fadiff {

struct Batch;
struct RoomColumns;

struct MappingPack {
    std::vector<Lanes> factor;                // [2 L][D]
    std::vector<Lanes> last;                  // [2 L][D]; residuals as in Mapping, or none
    std::vector<Lanes> position;              // [L][D]; where the temporal loop of a dimension stands in its level,
                                              // innermost 0; nothing of dimensions without one
    std::vector<Mask> on_y;                   // [L][D]
    std::vector<Mask> keep;                   // [L][T]; without levels that Timeloop forgets, see lay_keep
    std::vector<std::uint8_t> spatial_order;  // [L][D][LANES]; dimensions, as in Mapping; nothing of levels without loops
    std::vector<std::uint8_t> order;          // [L][D][LANES]; the same in time, or none: dense counts do without
    std::vector<Dims> looping;                // [2 L]; dimensions that may have a loop in some lane, all others have none
    int count = 0;                            // lanes in use; the others hold copies of some mapping

    // `whole`: every order is laid, that of loops of bound 1 too. `residual`: with residuals.
    explicit MappingPack(const Layer& layer, bool whole = false, bool residual = false)
        : factor(std::size_t(layer.places()) * layer.dims), last(residual ? factor.size() : 0), position(std::size_t(layer.levels) * layer.dims),
          on_y(position.size()), keep(std::size_t(layer.levels) * layer.tensors),
          spatial_order(position.size() * LANES), order(whole ? spatial_order.size() : 0),
          looping(layer.places()) {}

    const Lanes* spatial(int level, int dims) const { return factor.data() + std::size_t(2 * level) * dims; }
    const Lanes* temporal(int level, int dims) const { return factor.data() + std::size_t(2 * level + 1) * dims; }
    bool whole() const { return !order.empty(); }
    Dims spatial_dims(int level) const { return looping[2 * level]; }
    Dims temporal_dims(int level) const { return looping[2 * level + 1]; }
};

// Takes a loop into the points of a dimension's whole runs and of its last run, in which the loop has `last` iterations; the
// innermost loop comes first (model/tiles.py:tiles).
template <typename Number>
void take_loop(const Number& iterations, const Number& last, Number& whole, Number& rest) {
    rest += whole * (last - Number(1));
    whole *= iterations;
}

// Room of eight mappings.
struct RoomPack {
    std::vector<Lanes> words;    // [L]
    std::vector<Mask> counted;   // [L][T]

    explicit RoomPack(const Layer& layer) : words(layer.levels), counted(std::size_t(layer.levels) * layer.tensors) {}
};

// Lays the room of one mapping into a lane.
void lay_room(const RoomColumns& rooms, std::size_t column, int lane, RoomPack& pack);

// Lays mappings side by side, at most LANES of them.
void pack_mappings(const Layer& layer, const Mapping* const* mappings, int count, MappingPack& pack);

// Lays columns first, first + 1, ... of a batch side by side, at most LANES of them, with residuals where the pack has room
// for these. Throws where an order that is read does not name each dimension once, which leads to entries of tables, and
// where a factor is below 1.
void pack_columns(const Layer& layer, const Batch& batch, std::size_t first, int count, MappingPack& pack);

// Lays a mapping into every lane.
void pack_mapping(const Layer& layer, const Mapping& mapping, MappingPack& pack);

// Lay parts of a mapping into one lane: a factor, the order of a level's temporal loops, the layout of its spatial
// loops, the levels that keep a data space. A level that keeps it without coalescing, outside of every level that
// coalesces it, is forgotten (model/access_counts.py, holding).
void lay_factor(const Layer& layer, const Mapping& mapping, int place, int dim, int lane, MappingPack& pack);
void lay_order(const Layer& layer, const Mapping& mapping, int level, int lane, MappingPack& pack);
void lay_layout(const Layer& layer, const Mapping& mapping, int level, int lane, MappingPack& pack);
void lay_keep(const Layer& layer, const Mapping& mapping, int tensor, int lane, MappingPack& pack);

}  // namespace fadiff
