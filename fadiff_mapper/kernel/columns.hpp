// Batches of mappings as the arrays of model/loop_nest.py (Nest), and their columns.

#pragma once

#include <cstring>
#include <memory>
#include <utility>

#include "mapping.hpp"

namespace fadiff {

enum { SPATIAL, TEMPORAL };  // the loops of even and of odd places

// The arrays of a Nest, the batch axis last and contiguous.
struct Batch {
    std::size_t size = 0;
    const double *factor[2] = {}, *last[2] = {};  // SPATIAL, TEMPORAL: [L][D][B]; no `last`: no residuals
    const std::int64_t* order[2] = {};            // [L][D][B]
    const bool *on_y = nullptr, *keep = nullptr;  // [L][D][B], [L][T][B]
    std::shared_ptr<const void> owner;            // of the arrays

    bool residual() const { return last[TEMPORAL]; }
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
            bool counts = mapping.factor[own] >= 1;  // false for no number
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

// The columns of a batch one after the other. Those of a large batch are copied near each other first: the numbers of one
// mapping lie a whole row apart; where a row is a power of two long they share few lines of the processor's caches and push
// each other out before their neighbours are read, so that batches of 4,096 take up to three times as long as batches of 64
// (copied, 1.2 to 1.4 times). The next columns are asked for ahead of time.
class NearColumns {
public:
    NearColumns(const Layer& layer, const Batch& batch, std::size_t first, std::size_t last)
        : batch_(batch), near_(batch), first_(first), last_(last), copied_(batch.size > 2 * SIZE),
          loops_(std::size_t(layer.levels) * layer.dims), cells_(std::size_t(layer.levels) * layer.tensors) {
        if (!copied_) return;
        factor_.resize((batch.residual() ? 4 : 2) * loops_ * SIZE), order_.resize(2 * loops_ * SIZE);
        flag_ = std::make_unique<bool[]>((loops_ + cells_) * SIZE);
        near_.size = SIZE;
    }

    // The batch in which a column and the rest of its pack lie, and the column's place there. The first one, then each
    // LANES further.
    std::pair<const Batch&, std::size_t> at(std::size_t column) {
        if (!copied_) return {batch_, column};
        const std::size_t within = (column - first_) % SIZE;
        if (!within) copy(column, std::min(SIZE, last_ - column));
        return {near_, within};
    }

private:
    // Columns. With 32 batches of 4,096 are scored at 0.81 to 0.94 of the rate, on four designs; with 128 about as fast.
    static constexpr std::size_t SIZE = 64;

    void copy(std::size_t first, std::size_t count) {
        const auto rows = [&](const auto* from, std::size_t number, auto* into) {
            constexpr std::size_t bytes = SIZE * sizeof *into;
            for (std::size_t i = 0; i < number; ++i) {
                const auto* own = from + i * batch_.size + first;
                if (count < SIZE) std::copy_n(own, count, into + i * SIZE);
                else std::memcpy(into + i * SIZE, own, bytes);
                for (std::size_t byte = 0; byte < bytes; byte += 64)
                    __builtin_prefetch(reinterpret_cast<const char*>(own) + bytes + byte, 0, 2);
            }
            return into;
        };
        for (int half : {SPATIAL, TEMPORAL}) {
            near_.factor[half] = rows(batch_.factor[half], loops_, &factor_[half * loops_ * SIZE]);
            near_.order[half] = rows(batch_.order[half], loops_, &order_[half * loops_ * SIZE]);
            if (batch_.residual()) near_.last[half] = rows(batch_.last[half], loops_, &factor_[(2 + half) * loops_ * SIZE]);
        }
        near_.on_y = rows(batch_.on_y, loops_, flag_.get());
        near_.keep = rows(batch_.keep, cells_, &flag_[loops_ * SIZE]);
    }

    const Batch& batch_;
    Batch near_;
    const std::size_t first_, last_;
    const bool copied_;
    const std::size_t loops_, cells_;
    std::vector<double> factor_;
    std::vector<std::int64_t> order_;
    std::unique_ptr<bool[]> flag_;
};

}  // namespace fadiff
