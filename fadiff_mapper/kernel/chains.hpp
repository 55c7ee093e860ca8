// The search of one problem on the exact model: chains of random moves that cool down, then descent to a local optimum.
//
// Simulated annealing (Kirkpatrick, Gelatt and Vecchi 1983) in many chains, each of which evaluates several neighbours
// before it moves. The result is the best mapping that any chain met.

#pragma once

#include <limits>
#include <optional>
#include <tuple>

#include "evaluate.hpp"
#include "moves.hpp"

namespace fadiff {

// TINY is added to a metric, so that its logarithm is finite. ILLEGAL is the least value of illegal mappings, above legal ones.
constexpr double TINY = 1e-30, ILLEGAL = 1e6;

// Values (logarithms of the metric) that differ by less count as equal: far above the rounding of doubles, far below the
// effect of a word more or less.
constexpr double SAME = 1e-9;

// Metrics as one number to minimise (search/best_so_far.py): the sum of weight * log(metric).
struct Objective {
    std::vector<std::pair<double, Metric>> terms;  // (weight, metric)
    Price price{1, 1};  // for Metric::SHARE

    double value(const Scores& scores) const;
};

// One cooling schedule (search/options.py, Effort).
struct Annealing {
    int rounds;
    double temperature_start, temperature_end;  // natural logarithms of the metric, geometric in between
    int rounds_least, chains_agreeing, tries;
    bool greedy;  // pick the best of the tried neighbours; else draw one in proportion to exp(-value / temperature)
    double resplit_rate = 0, crossover_rate = 0;  // share of the moves of factors, share of all moves; see moves.hpp
};

class Chains {
public:
    enum Stage { START, REFINE, POLISH };
    // A new best mapping: seconds since the chains were made, evaluations, legal evaluations, value, stage.
    using Improvement = std::tuple<double, std::int64_t, std::int64_t, double, Stage>;

    // After so many seconds only the first pack of new chains is still evaluated.
    Chains(const Layer& layer, MapSpace space, Objective objective, const RoomColumns& room, std::uint64_t seed,
           std::shared_ptr<const sparse::SparseDesign> design = nullptr, std::optional<Correction> correction = std::nullopt,
           double seconds = std::numeric_limits<double>::infinity());

    void start_random(int count);            // adds chains at random points
    void start_at(const Mapping& mapping);   // adds a chain at a mapping of the space
    void begin(const Annealing& plan);       // starts a schedule at round 0 from the present chains
    bool anneal(int rounds);                 // runs rounds; true once the schedule or the time is over, or chains agree
    bool agreed() const { return agreed_; }
    int met() const;                         // chains that met the best mapping since the schedule, if any, began
    // Keeps the chains with the best present mappings: one of each value, then copies where places are left.
    void keep_strongest(int count);
    void start_again(int count);             // replaces all chains by chains at random points; the best mapping met stays
    bool polish(int steps);                  // steepest descent of the best mapping; true where no neighbour is better

    const Layer& layer() const { return layer_; }
    double best_value() const { return best_value_; }
    const Mapping& best() const { return best_point().mapping; }
    std::int64_t evaluations() const { return evaluations_; }
    std::int64_t legal_evaluations() const { return legal_evaluations_; }
    const std::vector<Improvement>& history() const { return history_; }

private:
    const Point& best_point() const;                // throws before the first chain
    struct Chain {
        Point point;
        double value, lowest;
    };

    // Evaluates the mappings of the pack into `values`. Keeps the best mapping so far; `assign(lane, point)` makes `point`
    // the mapping of a lane.
    template <typename Assign>
    void evaluate_pack(Stage stage, double* values, Assign assign);
    // Evaluates neighbours of a point, whose changes are in `changes_` and laid into the pack, then takes the changes back.
    void evaluate_neighbours(const Point& from, int count, Stage stage, double* values);
    void add(std::vector<Point> points);     // at most `LANES`
    bool late() const;
    bool draw_neighbour(const Chain& chain, Changes& changes);  // into near_, which is the chain's point
    void step(Chain& chain, double temperature);

    Layer layer_;
    MapSpace space_;
    Objective objective_;
    std::optional<RoomPack> room_;           // the same room in every lane
    Random random_;
    Evaluator evaluator_;
    Workspace& work_ = evaluator_.work;
    std::vector<Chain> chains_;
    Point near_;                             // a neighbour; scratch
    std::vector<Changes> changes_;           // [LANES]; how the neighbours in the pack differ from the present point
    Changes picked_;                         // changes of the best neighbour that a chain tried
    std::optional<Point> best_;
    double best_value_;
    std::int64_t evaluations_ = 0, legal_evaluations_ = 0;
    std::vector<Improvement> history_;
    Annealing plan_{};
    int round_ = 0;
    bool agreed_ = false;
    double start_, deadline_;
};

}  // namespace fadiff
