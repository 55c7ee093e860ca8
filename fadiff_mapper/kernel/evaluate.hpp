// The exact evaluation: the numbers of `timeloop-model` that a search compares, for eight mappings at once, whether dense, with
// residual factors, or on a sparse design.
//
// The compiled form of model/evaluate.py; tests/kernel/test_kernel_equals_arrays.py compares both on random mappings.

#pragma once

#include <atomic>
#include <memory>
#include <optional>

#include "columns.hpp"
#include "correction.hpp"
#include "traffic.hpp"

namespace fadiff {

struct Scores {
    double cycles = 0;               // cycles of the whole run
    double energy = 0;               // pJ, interconnects included
    double last_level_accesses = 0;  // accesses of the outermost level in words
    bool legal = true;               // Timeloop accepts the mapping
    double excess = 0;               // octaves by which the mapping exceeds its limits, 0 where legal
    double forgotten = 1;            // multiply-accumulates of the problem over those counted by Timeloop, at least 1
};

// Scratch of one thread; [L][T] unless said otherwise.
struct Workspace {
    MappingPack pack;  // the mappings to evaluate
    Tiles tiles;
    Traffic traffic;
    std::vector<Lanes> scale;                   // factor on the words of a cell after bypassing
    std::vector<Lanes> content;                 // words that a level sends after bypassing
    std::vector<Lanes> part;                    // words that one instance is responsible for
    std::vector<Lanes> reads, fills, updates;   // accesses of one instance, words
    std::vector<Lanes> stored, transferred;     // words of the level per stored element, and per element sent to its
                                                // receivers, over `layer.per`; empty where an element is a word
    std::vector<Mask> further;                  // some level further out keeps the data space
    std::vector<Lanes> used, receivers;         // [L]; instances in use, and receivers of an instance; averages where last
                                                // runs leave some idle
    Lanes computes;                             // multiply-accumulates
    bool residual, rounded = true;              // with residuals; as Timeloop rounds

    // `whole`, `residual`: see MappingPack.
    explicit Workspace(const Layer& layer, bool whole = false, bool residual = false)
        : pack(layer, whole, residual), tiles(layer), traffic(layer), scale(std::size_t(layer.levels) * layer.tensors),
          content(scale.size()), part(scale.size()), reads(scale.size()), fills(scale.size()), updates(scale.size()),
          stored(layer.per.size()), transferred(layer.per.size()), further(scale.size()), used(layer.levels),
          receivers(layer.levels), residual(residual) {}
};

// Words per cycle that a level can deliver over the words per cycle that its receivers demand, at most 1.
Lanes slowdown(const Level& level, Lanes read, Lanes written);

constexpr unsigned ALL_LANES = (1u << LANES) - 1;

// Scores of the mappings in `work.pack`. `room` may be null: the whole capacity. Illegal mappings get no counts, and 0 as
// cycles, energy and accesses, except in the lanes that are `wanted` (a bit each).
void evaluate(const Layer& layer, const RoomPack* room, unsigned wanted, Workspace& work, Scores* scores);

// As `evaluate`, for tiles that have been laid. Returns the lanes with output words that are never touched, a bit each.
unsigned evaluate_tiles(const Layer& layer, const RoomPack* room, unsigned wanted, Workspace& work, Scores* scores);

// Scores of mappings with residuals, in a workspace for residuals: Timeloop's scores, and scores without its rounding
// errors (model/evaluate.py, UNROUNDED).
void evaluate_residuals(const Layer& layer, const RoomPack* room, Workspace& work, Scores* scores, Scores* unrounded);

namespace sparse {
struct SparseDesign;
class SparseEvaluator;
}  // namespace sparse

class Evaluator {
public:
    // `correction`: corrects the cycles of a dense design.
    explicit Evaluator(const Layer& layer, bool residual = false, std::shared_ptr<const sparse::SparseDesign> design = nullptr,
                       std::optional<Correction> correction = std::nullopt);
    ~Evaluator();

    // Scores of the mappings in `work.pack`, as `evaluate` above; with residuals also scores without Timeloop's rounding
    // errors. On a sparse design the room is the whole capacity.
    void evaluate(const RoomPack* room, unsigned wanted, Scores* scores, Scores* unrounded);

    Workspace work;

private:
    const Layer& layer_;
    std::unique_ptr<sparse::SparseEvaluator> sparse_;
    std::optional<Correction> correction_;
};

// A layer with an idle evaluator for the next batch: making an evaluator takes longer than evaluating a small batch.
struct ScoredLayer : Layer {
    std::atomic<Evaluator*> idle{nullptr};
    ~ScoredLayer();
};

// Scores columns first to last of a batch into out [5][B]: cycles, energy, last level accesses, excess, legal. `all`: counts
// of illegal mappings, too.
void score(ScoredLayer& layer, std::shared_ptr<const sparse::SparseDesign> design, const Batch& batch, const RoomColumns& rooms,
           std::size_t first, std::size_t last, bool all, double* out);

// The traffic before bypassing of a batch: demand of one receiver and words over links [L][T][B], kinds of transfer
// [L][T][B], calls of the walk [B]. Demand of mappings with residuals, and calls of others, are 0.
struct BatchTraffic {
    std::vector<double> wanted, links, calls;
    std::vector<Tally> tallies;
};
BatchTraffic traffic_of(const Layer& layer, const Batch& batch, bool with_hops);

}  // namespace fadiff
