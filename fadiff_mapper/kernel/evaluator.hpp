// The evaluation of mappings of every kind: dense, with residual factors, on a sparse design; of packs and of batches.

#pragma once

#include <atomic>
#include <memory>

#include "columns.hpp"
#include "evaluate.hpp"

namespace fadiff {

namespace sparse {
struct SparseDesign;
class SparseEvaluator;
}  // namespace sparse

class Evaluator {
public:
    explicit Evaluator(const Layer& layer, bool residual = false, std::shared_ptr<const sparse::SparseDesign> design = nullptr);
    ~Evaluator();

    // Scores of the mappings that lie in `work.pack`, see evaluate.hpp; with residuals also those without Timeloop's faults
    // of rounding. On a sparse design the room is the whole capacity.
    void evaluate(const RoomPack* room, unsigned wanted, Scores* scores, Scores* unrounded);

    Workspace work;

private:
    const Layer& layer_;
    std::unique_ptr<sparse::SparseEvaluator> sparse_;
};

// A layer with an evaluator that nobody uses at present: to make one takes longer than to evaluate a small batch.
struct ScoredLayer : Layer {
    std::atomic<Evaluator*> idle{nullptr};
    ~ScoredLayer();
};

// Rooms of a batch, [L][B] and [L][T][B]; no words: the whole capacity.
struct RoomColumns {
    const double* words = nullptr;
    const bool* counted = nullptr;
};

// Scores columns first to last of a batch into out [5][B]: cycles, energy, last level accesses, excess, legal. `all`: counts
// of illegal mappings, too; `unrounded`: of mappings with residuals, without Timeloop's faults of rounding.
void score(ScoredLayer& layer, std::shared_ptr<const sparse::SparseDesign> design, const Batch& batch, const RoomColumns& rooms,
           std::size_t first, std::size_t last, bool all, bool unrounded, double* out);

// The traffic before bypassing of a batch: demand of one receiver and words over links [L][T][B], kinds of transfer
// [L][T][B], calls of the walk [B]. Demand of mappings with residuals, and calls of others, are 0.
struct BatchTraffic {
    std::vector<double> wanted, links, calls;
    std::vector<Tally> tallies;
};
BatchTraffic traffic_of(const Layer& layer, const Batch& batch, bool with_hops);

}  // namespace fadiff
