// Batches of mappings as the arrays of model/loop_nest.py (Nest), and their columns.

#pragma once

#include <memory>

#include "layer.hpp"

namespace fadiff {

enum { SPATIAL, TEMPORAL };  // loops of even places are spatial, of odd places temporal

// The arrays of a Nest, the batch axis last and contiguous.
struct Batch {
    std::size_t size = 0;
    const double *factor[2] = {}, *last[2] = {};  // SPATIAL, TEMPORAL: [L][D][B]; no `last`: no residuals
    const std::int64_t* order[2] = {};            // [L][D][B]
    const bool *on_y = nullptr, *keep = nullptr;  // [L][D][B], [L][T][B]
    std::shared_ptr<const void> owner;            // of the arrays

    bool residual() const { return last[TEMPORAL]; }
};

// Words of every level that the mappings of a batch may fill beside resident tensors of other layers (model/legality.py, Room).
struct RoomColumns {
    std::size_t size = 0;
    const double* words = nullptr;  // [L][B]; none: the whole capacity
    const bool* counted = nullptr;  // [L][T][B]
};

// Whether D numbers, `pitch` apart, are the numbers of all dimensions.
template <typename Index>
bool each_dimension_once(const Index* order, std::size_t pitch, int dims) {
    Dims met = 0;
    for (int position = 0; position < dims; ++position) {
        const auto d = std::uint64_t(order[position * pitch]);
        if (d >= std::uint64_t(dims)) return false;
        met |= Dims(1) << d;
    }
    return met == ~Dims(0) >> (64 - dims);
}

constexpr const char *WRONG_ORDER = "order, spatial_order: not each dimension once",
                     *WRONG_FACTOR = "temporal, spatial: a factor below 1, or a residual that is none";

// One column of a batch. Throws where an order does not name each dimension once, and where a factor is below 1.
inline Mapping mapping_of(const Layer& layer, const Batch& batch, std::size_t column) {
    Mapping mapping(layer);
    const int dims = layer.dims;
    if (batch.residual()) mapping.last = mapping.factor;
    for (int place = 0; place < layer.places(); ++place) {
        const int half = place % 2;
        const std::size_t row = std::size_t(place / 2) * dims;
        std::vector<std::uint8_t>& order = half == TEMPORAL ? mapping.order : mapping.spatial_order;
        if (!each_dimension_once(batch.order[half] + row * batch.size + column, batch.size, dims))
            throw std::invalid_argument(WRONG_ORDER);
        for (int d = 0; d < dims; ++d) {
            const std::size_t at = (row + d) * batch.size + column, own = std::size_t(place) * dims + d;
            mapping.factor[own] = batch.factor[half][at];
            order[row + d] = std::uint8_t(batch.order[half][at]);
            mapping.on_y[row + d] = batch.on_y[at];
            bool counts = mapping.factor[own] >= 1;  // false for NaN
            if (batch.residual()) {
                mapping.last[own] = batch.last[half][at];
                counts &= mapping.last[own] >= 1 && mapping.last[own] <= mapping.factor[own];
            }
            if (!counts) throw std::invalid_argument(WRONG_FACTOR);
        }
    }
    for (std::size_t cell = 0; cell < mapping.keep.size(); ++cell) mapping.keep[cell] = batch.keep[cell * batch.size + column];
    mapping.find_loops(dims);
    return mapping;
}

}  // namespace fadiff
