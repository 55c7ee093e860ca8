// Batches of mappings as the arrays of model/loop_nest.py (Nest).

#pragma once

#include <cstring>

#include "mapping.hpp"

namespace fadiff {

// The arrays of a Nest, the batch axis last and contiguous.
template <typename Factor, typename Index, typename Flag>
struct BatchArrays {
    Factor *temporal, *spatial;               // [L][D][B]
    Index *order, *spatial_order;             // [L][D][B]
    Flag *keep, *on_y;                        // [L][T][B], [L][D][B]
    std::size_t batch;
    Factor *temporal_last = nullptr, *spatial_last = nullptr;  // [L][D][B]; none: no residuals
};
using Batch = BatchArrays<const double, const std::int64_t, const bool>;
using BatchOut = BatchArrays<double, std::int64_t, bool>;

// Some columns of a large batch, copied out of it. The numbers of one mapping lie a whole row apart; where a row is a
// power of two long they share few lines of the processor's caches and push each other out before their neighbours are
// read: batches of 4,096 then take up to three times as long as batches of 64 (copied, 1.2 to 1.4 times). The next columns
// are asked for ahead of time.
class ColumnBlock {
public:
    // Columns. With 32 batches of 4,096 are scored at 0.81 to 0.94 of the rate, on four designs; with 128 about as fast.
    static constexpr std::size_t SIZE = 64;

    explicit ColumnBlock(const Layer& layer)
        : loops_(std::size_t(layer.levels) * layer.dims), cells_(std::size_t(layer.levels) * layer.tensors),
          factor_(2 * loops_ * SIZE), order_(2 * loops_ * SIZE), flag_(std::make_unique<bool[]>((loops_ + cells_) * SIZE)) {}

    // Columns first, first + 1, ..., at most SIZE; until the next call.
    Batch copy(const Batch& from, std::size_t first, std::size_t count) {
        const auto rows = [&](const auto* row, std::size_t number, auto* into) {
            constexpr std::size_t bytes = SIZE * sizeof *into;
            for (std::size_t i = 0; i < number; ++i) {
                const auto* own = row + i * from.batch + first;
                if (count < SIZE) std::copy_n(own, count, into + i * SIZE);
                else std::memcpy(into + i * SIZE, own, bytes);
                for (std::size_t byte = 0; byte < bytes; byte += 64)
                    __builtin_prefetch(reinterpret_cast<const char*>(own) + bytes + byte, 0, 2);
            }
            return into;
        };
        return {rows(from.temporal, loops_, &factor_[0]), rows(from.spatial, loops_, &factor_[loops_ * SIZE]),
                rows(from.order, loops_, &order_[0]), rows(from.spatial_order, loops_, &order_[loops_ * SIZE]),
                rows(from.keep, cells_, &flag_[0]), rows(from.on_y, loops_, &flag_[cells_ * SIZE]), SIZE};
    }

private:
    std::size_t loops_, cells_;
    std::vector<double> factor_;
    std::vector<std::int64_t> order_;
    std::unique_ptr<bool[]> flag_;
};

// Copies columns first, first + 1, ... of a batch into mappings.
inline void read_columns(const Layer& layer, const Batch& batch, std::size_t first, int count, Mapping* into) {
    const std::size_t dims = layer.dims, loops = layer.levels * dims, cells = std::size_t(layer.levels) * layer.tensors;
    for (int i = 0; i < count; ++i) {
        Mapping& mapping = into[i];
        const std::size_t column = first + i;
        const auto read = [&](const auto* rows, std::size_t number, auto* to) {
            for (std::size_t at = 0; at < number; ++at) to[at] = std::decay_t<decltype(*to)>(rows[at * batch.batch + column]);
        };
        for (int level = 0; level < layer.levels; ++level) {
            const std::size_t row = level * dims * batch.batch;
            double* factors = &mapping.factor[2 * level * dims];
            read(batch.spatial + row, dims, factors), read(batch.temporal + row, dims, factors + dims);
            if (!batch.temporal_last) continue;
            mapping.last.resize(mapping.factor.size());
            double* lasts = &mapping.last[2 * level * dims];
            read(batch.spatial_last + row, dims, lasts), read(batch.temporal_last + row, dims, lasts + dims);
        }
        read(batch.order, loops, mapping.order.data()), read(batch.spatial_order, loops, mapping.spatial_order.data());
        read(batch.on_y, loops, mapping.on_y.data()), read(batch.keep, cells, mapping.keep.data());
        mapping.find_loops(layer.dims);
        const auto known = [&](std::uint8_t dim) { return dim < dims; };
        if (!std::all_of(mapping.order.begin(), mapping.order.end(), known)
            || !std::all_of(mapping.spatial_order.begin(), mapping.spatial_order.end(), known))
            throw std::invalid_argument("order: no such dimension");
    }
}

// Copies a mapping into one column of a batch.
inline void write_column(const Layer& layer, const Mapping& mapping, const BatchOut& batch, std::size_t column) {
    const int dims = layer.dims;
    for (int level = 0; level < layer.levels; ++level) {
        for (int d = 0; d < dims; ++d) {
            const std::size_t at = std::size_t(level) * dims + d, row = at * batch.batch + column;
            batch.spatial[row] = mapping.spatial(level, dims)[d];
            batch.temporal[row] = mapping.temporal(level, dims)[d];
            if (batch.temporal_last) {
                batch.spatial_last[row] = mapping.last[(2 * level) * dims + d];
                batch.temporal_last[row] = mapping.last[(2 * level + 1) * dims + d];
            }
            batch.order[row] = mapping.order[at];
            batch.spatial_order[row] = mapping.spatial_order[at];
            batch.on_y[row] = mapping.on_y[at] != 0;
        }
        for (int t = 0; t < layer.tensors; ++t) {
            const std::size_t at = std::size_t(level) * layer.tensors + t;
            batch.keep[at * batch.batch + column] = mapping.keep[at] != 0;
        }
    }
}

}  // namespace fadiff
