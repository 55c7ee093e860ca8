// NumPy arrays as the kernel takes them: contiguous, with their shapes checked.

#pragma once

#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>

#include <algorithm>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>

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

// The arrays of a Nest; they must outlive the view.
struct BatchView : Batch {
    BatchView(const Layer& layer, const Array<double>& temporal, const Array<double>& spatial,
              const Array<std::int64_t>& order, const Array<bool>& keep, const Array<bool>& on_y,
              const Array<std::int64_t>& spatial_order) {
        batch = std::size_t(temporal.ndim() == 3 ? temporal.shape(2) : 0);
        this->temporal = cells_of(temporal, layer.levels, layer.dims, batch, "temporal");
        this->spatial = cells_of(spatial, layer.levels, layer.dims, batch, "spatial");
        this->order = cells_of(order, layer.levels, layer.dims, batch, "order");
        this->keep = cells_of(keep, layer.levels, layer.tensors, batch, "keep");
        this->on_y = cells_of(on_y, layer.levels, layer.dims, batch, "on_y");
        this->spatial_order = cells_of(spatial_order, layer.levels, layer.dims, batch, "spatial_order");
    }
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
