// One mapping, and the room that is left for its tiles.

#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <stdexcept>
#include <vector>

#include "layer.hpp"

namespace fadiff {

// One mapping of a layer. Places run from the innermost loops outwards: 2 l are the spatial loops of level l (the
// fan-out below it), 2 l + 1 its temporal loops.
struct Mapping {
    std::vector<double> factor;                 // [2 L][D]
    std::vector<std::uint8_t> order;            // [L][D]; dimensions of the temporal loops, innermost first
    std::vector<std::uint8_t> spatial_order;    // [L][D]; dimensions of the spatial loops, innermost first per axis
    std::vector<std::uint8_t> on_y;             // [L][D]; by dimension: the spatial loop lies on the Y axis
    std::vector<std::uint8_t> keep;             // [L][T]
    std::vector<Dims> looping;                  // [2 L]; dimensions with a factor above 1
    std::vector<double> last;                   // [2 L][D]; iterations of a loop's last run; none: those of the others

    explicit Mapping(const Layer& layer)
        : factor(std::size_t(layer.places()) * layer.dims, 1.0), order(std::size_t(layer.levels) * layer.dims),
          spatial_order(order.size()), on_y(order.size()), keep(std::size_t(layer.levels) * layer.tensors, 1),
          looping(layer.places()) {}

    void find_loops(int dims) {
        const double* own = factor.data();
        for (Dims& loops : looping) {
            loops = 0;
            for (int d = 0; d < dims; ++d) loops |= Dims(*own++ > 1) << d;
        }
    }

    const double* spatial(int level, int dims) const { return factor.data() + std::size_t(2 * level) * dims; }
    const double* temporal(int level, int dims) const { return factor.data() + std::size_t(2 * level + 1) * dims; }
};

// Words of every level that a mapping may fill where tensors of other layers lie already (model/legality.py, Room).
struct Room {
    std::vector<double> words;           // [L]
    std::vector<std::uint8_t> counted;   // [L][T]
};

}  // namespace fadiff
