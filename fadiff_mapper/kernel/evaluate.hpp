// The exact evaluation: the numbers of `timeloop-model` that a search compares, for eight mappings at once.
//
// The compiled form of model/nest_evaluation.py with the rounding of model/exact/evaluate.py; tests hold the two
// together on random mappings of all designs (tests/kernel/test_kernel_equals_arrays.py).

#pragma once

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
    MappingPack pack;  // what is evaluated
    Tiles tiles;
    Traffic traffic;
    std::vector<Lanes> scale;                   // factor on the words of a cell after bypassing
    std::vector<Lanes> content;                 // words that a level sends after bypassing
    std::vector<Lanes> part;                    // words that one instance is responsible for
    std::vector<Lanes> reads, fills, updates;   // accesses of one instance, words
    std::vector<Mask> further;                  // some level further out keeps the data space

    // `whole`: see MappingPack.
    explicit Workspace(const Layer& layer, bool whole = false)
        : pack(layer, whole), tiles(layer), traffic(layer), scale(std::size_t(layer.levels) * layer.tensors),
          content(scale.size()), part(scale.size()), reads(scale.size()), fills(scale.size()), updates(scale.size()),
          further(scale.size()) {}
};

constexpr unsigned ALL_LANES = (1u << LANES) - 1;

// Scores of the mappings that lie in `work.pack`. `room` may be null: the whole capacity. The counts of illegal
// mappings are left out but in the lanes that are `wanted` (a bit each), and with them cycles, energy and accesses (0).
void evaluate(const Layer& layer, const RoomPack* room, unsigned wanted, Workspace& work, Scores* scores);

// The same for tiles that have been laid. Returns the lanes with words of an output that are never touched, a bit each.
unsigned evaluate_tiles(const Layer& layer, const RoomPack* room, unsigned wanted, Workspace& work, Scores* scores);

}  // namespace fadiff
