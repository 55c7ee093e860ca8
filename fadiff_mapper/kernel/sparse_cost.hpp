// Cycles and energy of accesses and computes: the compiled form of sparse/level_cost.py, for eight mappings at once.

#pragma once

#include "sparse_accesses.hpp"

namespace fadiff::sparse {

struct SparseCost {
    Lanes cycles, energy;             // energy without that of interconnects, pJ
    Mask legal;                       // lanes that Timeloop accepts
};

// Scratch that every evaluation fills anew.
struct CostWork {
    std::vector<TileAccesses> accesses;          // [L]; of one data space
    std::vector<Lanes> energies;                 // [L][T]; of all instances, without leakage
    std::vector<Lanes> read, written, leaking;   // [L]; words per cycle that are asked for, instances that leak

    explicit CostWork(const Layer& layer)
        : accesses(layer.levels), energies(std::size_t(layer.levels) * layer.tensors), read(layer.levels),
          written(layer.levels), leaking(layer.levels) {}
};

// The cost of mappings whose dense counts lie in `dense`.
SparseCost find_cost(const SparseDesign& design, const SparseTiles& tiles, const Workspace& dense, CostWork& work);

}  // namespace fadiff::sparse
