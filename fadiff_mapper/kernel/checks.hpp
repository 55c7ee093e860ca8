// Content of arrays and tables from Python. Whatever leads to another entry must lie inside its table, so that no input
// makes the kernel read or write beyond one; shapes are checked where arrays are taken (bindings.hpp, module.cpp).

#pragma once

#include <algorithm>
#include <cstdint>
#include <stdexcept>
#include <string>

#include "columns.hpp"
#include "map_space.hpp"

namespace fadiff {

inline void need(bool holds, const char* what, const char* why = ": out of range") {
    if (!holds) throw std::invalid_argument(std::string(what) + why);
}

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

// Columns first, first + 1, ... of a batch: orders name each dimension once, factors are at least 1.
inline void check_columns(const Layer& layer, const Batch& batch, std::size_t first, int count) {
    const std::size_t dims = layer.dims, rows = std::size_t(layer.levels) * dims;
    bool ordered = true, counted = true;
    for (std::size_t row = 0; row < rows; row += dims)
        for (int i = 0; i < count; ++i) {
            const std::size_t at = row * batch.batch + first + i;
            ordered &= each_dimension_once(batch.order + at, batch.batch, layer.dims);
            ordered &= each_dimension_once(batch.spatial_order + at, batch.batch, layer.dims);
        }
    for (std::size_t row = 0; row < rows; ++row)
        for (int i = 0; i < count; ++i) {
            const std::size_t at = row * batch.batch + first + i;
            counted &= batch.temporal[at] >= 1 && batch.spatial[at] >= 1;  // false for no number
            if (batch.temporal_last)
                counted &= batch.temporal_last[at] >= 1 && batch.temporal_last[at] <= batch.temporal[at]
                    && batch.spatial_last[at] >= 1 && batch.spatial_last[at] <= batch.spatial[at];
        }
    need(ordered, "order, spatial_order", ": not each dimension once");
    need(counted, "temporal, spatial", ": a factor below 1, or a residual that is none");
}

// The candidates of a map space and the numbers in its tables.
inline void check_space(const MapSpace& space, const Layer& layer) {
    const auto number = [&](Number n) { return n < space.width; };
    const auto known = [&](int level, int tensor) {
        return level >= 0 && level < layer.levels && tensor >= 0 && tensor < layer.tensors;
    };
    const auto ordered = [&](const auto& order) { return each_dimension_once(order.data(), 1, space.dims); };
    need(std::all_of(space.quotient.begin(), space.quotient.end(), number), "quotient");
    need(std::all_of(space.product.begin(), space.product.end(), number), "product");
    need(std::all_of(space.bound.begin(), space.bound.end(), [&](Number n) { return n >= 0 && number(n); }), "bound");
    need(std::all_of(space.divisor.begin(), space.divisor.end(), [](double d) { return d >= 1; }), "divisor");
    for (std::size_t cell = 0; cell < space.completable.size(); ++cell)
        need(!space.completable[cell] || space.quotient[cell % space.quotient.size()] >= 0, "completable");
    for (int level = 0; level < layer.levels; ++level) {
        const auto &orders = space.orders[level];
        const auto &layouts = space.layouts[level];
        need(!orders.empty() && std::all_of(orders.begin(), orders.end(), ordered), "orders");
        need(!layouts.empty() && std::all_of(layouts.begin(), layouts.end(),
                                             [&](const Layout& layout) { return ordered(layout.order); }), "layouts");
    }
    for (auto [level, tensor] : space.open) need(known(level, tensor), "open");
    for (const Decision& decision : space.decisions) need(known(decision.level, decision.tensor), "decisions");
}

}  // namespace fadiff
