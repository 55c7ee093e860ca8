// NumPy arrays as the kernel takes them: contiguous, with their shapes checked.

#pragma once

#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>

#include <algorithm>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "columns.hpp"
#include "map_space.hpp"

namespace fadiff {

template <typename T>
using Array = pybind11::array_t<T, pybind11::array::c_style>;

template <typename T>
const T* cells_of(const Array<T>& array, int levels, int rows, std::size_t batch, const char* name) {
    if (array.ndim() != 3 || array.shape(0) != levels || array.shape(1) != rows || std::size_t(array.shape(2)) != batch)
        throw std::invalid_argument(std::string(name) + ": wrong shape");
    return array.data();
}

// A batch of mappings that owns its arrays: the fields of a Nest in their order, six or, with residuals, eight.
struct BatchView : Batch {
    BatchView(const Layer& layer, const pybind11::sequence& nest) : Batch{} {
        if (nest.size() != 6 && nest.size() != 8) throw std::invalid_argument("a nest of 6 or 8 arrays");
        const auto arrays = pybind11::reinterpret_steal<pybind11::tuple>(PySequence_Tuple(nest.ptr()));
        const auto first = as_array<double>(arrays[0], "temporal");
        batch = std::size_t(first.ndim() == 3 ? first.shape(2) : 0);
        const int levels = layer.levels;
        temporal = own<double>(arrays[0], levels, layer.dims, "temporal");
        spatial = own<double>(arrays[1], levels, layer.dims, "spatial");
        order = own<std::int64_t>(arrays[2], levels, layer.dims, "order");
        keep = own<bool>(arrays[3], levels, layer.tensors, "keep");
        on_y = own<bool>(arrays[4], levels, layer.dims, "on_y");
        spatial_order = own<std::int64_t>(arrays[5], levels, layer.dims, "spatial_order");
        if (arrays.size() == 6) return;
        temporal_last = own<double>(arrays[6], levels, layer.dims, "temporal_last");
        spatial_last = own<double>(arrays[7], levels, layer.dims, "spatial_last");
    }

private:
    template <typename T>
    static Array<T> as_array(const pybind11::object& array, const char* name) {
        auto cells = Array<T>::ensure(array);
        if (!cells) throw pybind11::type_error(std::string(name) + ": no array of such numbers");
        return cells;
    }
    template <typename T>
    const T* own(const pybind11::object& array, int levels, int rows, const char* name) {
        const auto cells = as_array<T>(array, name);
        owned_.push_back(cells);
        return cells_of(cells, levels, rows, batch, name);
    }
    std::vector<pybind11::object> owned_;
};

// The dense arrays of a Nest, for functions that know no residuals.
struct DenseBatch : BatchView {
    DenseBatch(const Layer& layer, const pybind11::sequence& nest) : BatchView(layer, nest) {
        if (temporal_last) throw std::invalid_argument("residuals are not known here");
    }
};

// New arrays of a batch, and the tuple of them as they make a Nest.
class NewBatch {
public:
    NewBatch(const Layer& layer, std::size_t batch, bool residual)
        : temporal_(cells(layer, batch)), spatial_(cells(layer, batch)), temporal_last_(cells(layer, residual ? batch : 0)),
          spatial_last_(cells(layer, residual ? batch : 0)), order_(cells(layer, batch)), spatial_order_(cells(layer, batch)),
          keep_({std::size_t(layer.levels), std::size_t(layer.tensors), batch}), on_y_(cells(layer, batch)),
          out{temporal_.mutable_data(), spatial_.mutable_data(), order_.mutable_data(), spatial_order_.mutable_data(),
              keep_.mutable_data(), on_y_.mutable_data(), batch, residual ? temporal_last_.mutable_data() : nullptr,
              residual ? spatial_last_.mutable_data() : nullptr} {}

    pybind11::tuple arrays() const {
        pybind11::tuple arrays = pybind11::make_tuple(temporal_, spatial_, order_, keep_, on_y_, spatial_order_);
        if (out.temporal_last) arrays = arrays + pybind11::make_tuple(temporal_last_, spatial_last_);
        return arrays;
    }

private:
    static std::vector<std::size_t> cells(const Layer& layer, std::size_t batch) {
        return {std::size_t(layer.levels), std::size_t(layer.dims), batch};
    }
    Array<double> temporal_, spatial_, temporal_last_, spatial_last_;
    Array<std::int64_t> order_, spatial_order_;
    Array<bool> keep_, on_y_;

public:
    const BatchOut out;
};

// The columns of a batch one after the other; those of a large batch are copied near each other first, see ColumnBlock.
class NearColumns {
public:
    NearColumns(const Layer& layer, const Batch& batch, std::size_t first, std::size_t last)
        : batch_(batch), near_(batch), first_(first), last_(last) {
        if (batch.batch > 2 * ColumnBlock::SIZE) block_.emplace(layer);
    }

    // The batch in which a column and the rest of its pack lie, and the column's place there. The first one, then each
    // LANES further.
    std::pair<const Batch&, std::size_t> at(std::size_t column) {
        if (!block_) return {batch_, column};
        const std::size_t within = (column - first_) % ColumnBlock::SIZE;
        if (!within) near_ = block_->copy(batch_, column, std::min(ColumnBlock::SIZE, last_ - column));
        return {near_, within};
    }

private:
    const Batch& batch_;
    Batch near_;
    std::size_t first_, last_;
    std::optional<ColumnBlock> block_;
};

// A map space from a dictionary of arrays, see search/compiled_space.py.
MapSpace map_space_of(const pybind11::dict& table, const Layer& layer);

}  // namespace fadiff
