// The exact evaluation of one mapping: the numbers of `timeloop-model` that a search compares.
//
// The compiled form of model/nest_evaluation.py with the rounding of model/exact/evaluate.py; tests hold every count,
// cycle and pJ of the two together (tests/kernel/test_kernel_equals_arrays.py), on random mappings of all designs.

#pragma once

#include <cmath>

#include "traffic.hpp"

namespace fadiff {

struct Scores {
    double cycles = 0;               // cycles of the whole run
    double energy = 0;               // pJ, interconnects included
    double last_level_accesses = 0;  // accesses of the outermost level in words
    bool legal = true;               // Timeloop accepts the mapping
    double excess = 0;               // octaves by which it breaks its limits, 0 where legal
};

// Scratch of one thread; [L][T] unless said otherwise.
struct Workspace {
    Loops loops;
    Traffic traffic;
    std::vector<double> scale;                      // factor on the words of a cell after bypassing
    std::vector<double> content;                    // words that a level sends after bypassing
    std::vector<double> part;                       // words that one instance is responsible for
    std::vector<double> reads, fills, updates;      // accesses of one instance, words
    std::vector<std::uint8_t> further;              // some level further out keeps the data space

    explicit Workspace(const Layer& layer)
        : loops(layer), traffic(layer), scale(std::size_t(layer.levels) * layer.tensors), content(scale.size()),
          part(scale.size()), reads(scale.size()), fills(scale.size()), updates(scale.size()), further(scale.size()) {}
};

// Scores of a mapping. `room` may be null. Unless `all`, the counts of illegal mappings are left out, and with them
// cycles, energy and accesses (0).
Scores evaluate(const Layer& layer, const Mapping& mapping, const Room* room, bool all, Workspace& work);

}  // namespace fadiff
