// Eight mappings of a layer, lane by lane, as an evaluation reads them.

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
    std::vector<Lanes> position;              // [L][D]; position of a dimension's temporal loop in its level, innermost 0;
                                              // undefined for dimensions without a loop
    std::vector<Mask> on_y;                   // [L][D]
    std::vector<Mask> keep;                   // [L][T]; without levels that Timeloop forgets, see lay_keep
    std::vector<std::uint8_t> spatial_order;  // [L][D][LANES]; dimensions, as in Mapping; undefined at levels without loops
    std::vector<std::uint8_t> order;          // [L][D][LANES]; of temporal loops, or empty: dense counts do not need it
    std::vector<Dims> looping;                // [2 L]; dimensions that may have a loop in some lane, all others have none
    int count = 0;                            // lanes in use; unused lanes hold copies of some mapping

    // `whole`: every order is laid, also of loops of bound 1. `residual`: with residuals.
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

// Adds a loop to the points of a dimension in whole runs and in the last run, in which the loop has `last` iterations. Called
// from the innermost loop outwards (model/tiles.py:tiles).
template <typename Number>
void take_loop(const Number& iterations, const Number& last, Number& whole, Number& rest) {
    rest += whole * (last - Number(1));
    whole *= iterations;
}

// The room (RoomColumns) of eight mappings.
struct RoomPack {
    std::vector<Lanes> words;    // [L]
    std::vector<Mask> counted;   // [L][T]

    explicit RoomPack(const Layer& layer) : words(layer.levels), counted(std::size_t(layer.levels) * layer.tensors) {}
};

// Lays the room of one mapping into a lane.
void lay_room(const RoomColumns& rooms, std::size_t column, int lane, RoomPack& pack);

// Lays mappings side by side, at most LANES of them.
void pack_mappings(const Layer& layer, const Mapping* const* mappings, int count, MappingPack& pack);

// Lays columns first, first + 1, ... of a batch side by side, at most LANES of them, with residuals if the pack is for
// residuals. Throws where a factor is below 1, or where an order, by which tables are indexed, does not name each dimension
// once.
void pack_columns(const Layer& layer, const Batch& batch, std::size_t first, int count, MappingPack& pack);

// Lays a mapping into every lane.
void pack_mapping(const Layer& layer, const Mapping& mapping, MappingPack& pack);

// Lay parts of a mapping into one lane: a factor, the order of a level's temporal loops, the layout of its spatial
// loops, the levels that keep a data space. A level that keeps the data space without coalescing it, further out than every
// level that coalesces it, is dropped (model/access_counts.py, holding).
void lay_factor(const Layer& layer, const Mapping& mapping, int place, int dim, int lane, MappingPack& pack);
void lay_order(const Layer& layer, const Mapping& mapping, int level, int lane, MappingPack& pack);
void lay_layout(const Layer& layer, const Mapping& mapping, int level, int lane, MappingPack& pack);
void lay_keep(const Layer& layer, const Mapping& mapping, int tensor, int lane, MappingPack& pack);

}  // namespace fadiff
