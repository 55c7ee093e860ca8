// Columns of a batch side by side.

#pragma once

#include "columns.hpp"
#include "pack.hpp"

namespace fadiff {

// Lays columns first, first + 1, ... of a batch side by side, at most LANES of them. Throws where an order that is
// read does not name each dimension once, which leads to entries of tables, and where a factor is below 1.
void pack_columns(const Layer& layer, const Batch& batch, std::size_t first, int count, MappingPack& pack);

}  // namespace fadiff
