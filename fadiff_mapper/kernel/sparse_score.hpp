// The evaluation of mappings on a sparse design, as far as a search compares them: cycles, energy, legality.
//
// The compiled form of sparse/evaluate_sparse.py, level_cost.py and sparse_legality.py without spatial skipping;
// tests hold the two together (tests/sparse/test_compiled_sparse.py).

#pragma once

#include <memory>

#include "evaluate.hpp"
#include "sparse_accesses.hpp"

namespace fadiff::sparse {

// Octaves that a mapping counts as illegal which only the sparse analysis rejects: REJECTED of sparse/score_sparse.py.
constexpr double REJECTED = 1.0;

// Evaluates mappings; one for each thread.
class Evaluator {
public:
    explicit Evaluator(std::shared_ptr<const SparseDesign> design);

    // Scores of `count` mappings, at most LANES. Numbers of illegal ones are 0.
    void evaluate(const Mapping* const* mappings, int count, Scores* scores);
    const Layer& layer() const { return design_->layer; }

private:
    // One mapping as far as it can be judged before anything is counted.
    struct Candidate {
        MappedTiles mapped;
        std::vector<Occupancy> occupancies;   // [L][T]
        std::vector<Saving> savings;          // [L][T]
    };

    bool prepare(const Mapping& mapping, int lane);
    bool fits(const Candidate& candidate) const;
    bool finish(const Candidate& candidate, const Workspace& dense, int lane, Scores& scores);

    std::shared_ptr<const SparseDesign> design_;
    Met met_;
    Workspace dense_;                         // the mappings as on a dense design
    std::vector<Candidate> candidates_;       // LANES
    std::vector<DenseCounts> counts_;         // [T][L]
    std::vector<TileAccesses> accesses_;      // [T][L]
};

}  // namespace fadiff::sparse
