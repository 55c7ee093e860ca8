// The evaluation of mappings on a sparse design, as far as a search compares them: cycles, energy, legality.
//
// The compiled form of sparse/evaluate_sparse.py and sparse_legality.py without spatial skipping; tests hold the two
// together (tests/sparse/test_compiled_sparse.py).

#pragma once

#include <memory>

#include "sparse_cost.hpp"

namespace fadiff::sparse {

// Octaves that a mapping counts as illegal which only the sparse analysis rejects: REJECTED of sparse/score_sparse.py.
constexpr double REJECTED = 1.0;

// Evaluates mappings; one for each thread.
class Evaluator {
public:
    explicit Evaluator(std::shared_ptr<const SparseDesign> design);

    // Scores of the mappings that lie in `dense.pack`, a whole one; numbers of illegal ones are 0. Tiles and counts of a
    // dense design are left in `dense`.
    void evaluate(Workspace& dense, Scores* scores);
    const Layer& layer() const { return design_->layer; }

private:
    unsigned lay_tiles(const Workspace& dense);
    unsigned find_fitting(unsigned lanes) const;
    unsigned find_savings(const MappingPack& pack, unsigned lanes);
    Lanes outermost_accesses(const Workspace& dense) const;

    std::shared_ptr<const SparseDesign> design_;
    Met met_;
    SparseTiles tiles_;
    CostWork cost_;
};

}  // namespace fadiff::sparse
