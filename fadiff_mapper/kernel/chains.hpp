// The search of one problem on the exact model: chains of random moves that cool down, then descent to a local optimum.
//
// Simulated annealing (Kirkpatrick, Gelatt and Vecchi 1983) in many chains, each of which looks at several neighbours
// before it moves. Whatever it starts from, nothing worse than the best mapping met is returned.

#pragma once

#include <limits>
#include <optional>
#include <tuple>

#include "evaluate.hpp"
#include "moves.hpp"

namespace fadiff {

// Added to a metric, so that its logarithm stays finite; the least value of an illegal mapping, above those of all legal ones.
constexpr double TINY = 1e-30, ILLEGAL = 1e6;

// Values (logarithms of the metric) that differ by less are those of equally good mappings: far above the rounding of
// doubles, far below a word more or less.
constexpr double SAME = 1e-9;

// Metrics as one number to minimise (search/best_so_far.py): the sum of weight * log(metric).
struct Objective {
    std::vector<std::pair<double, Metric>> terms;  // with their weights
    Price price{1, 1};  // of which Metric::SHARE is the value

    double value(const Scores& scores) const;
};

// One cooling schedule (search/options.py, Effort).
struct Annealing {
    int rounds;
    double temperature_start, temperature_end;  // natural logarithms of the metric, geometric in between
    int rounds_least, chains_agreeing, tries;
    bool greedy;  // pick the best of the neighbours tried, or each in proportion to exp(-value / temperature)
    double resplit_rate = 0, crossover_rate = 0;  // shares of moves: of those of factors, and of all; see moves.hpp
};

class Chains {
public:
    enum Stage { START, REFINE, POLISH };
    // Of the best mapping: seconds since the chains were made, evaluations and the legal ones of these, value, stage.
    using Improvement = std::tuple<double, std::int64_t, std::int64_t, double, Stage>;

    // After so many seconds nothing is evaluated any more but the first pack of new chains.
    Chains(const Layer& layer, MapSpace space, Objective objective, const RoomColumns& room, std::uint64_t seed,
           std::shared_ptr<const sparse::SparseDesign> design = nullptr, std::optional<Correction> correction = std::nullopt,
           double seconds = std::numeric_limits<double>::infinity());

    void start_random(int count);            // adds chains at random points
    void start_at(const Mapping& mapping);   // adds a chain at a mapping of the space
    void begin(const Annealing& plan);       // starts a schedule at round 0 from the chains as they stand
    bool anneal(int rounds);                 // runs rounds of the schedule; true once that or time is over, or chains agree
    bool agreed() const { return agreed_; }
    int met() const;                         // chains that met the best mapping, since the schedule began if one has
    // Keeps the chains whose present mappings are best: one of each value, then copies where places are left.
    void keep_strongest(int count);
    void start_again(int count);             // chains at random points in place of all; the best mapping met stays
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

    // Evaluates the mappings of the pack; their values into `values`. Keeps the best so far, which `assign(lane, point)`
    // makes `point`.
    template <typename Assign>
    void evaluate_pack(Stage stage, double* values, Assign assign);
    // Evaluates the neighbours of a point whose changes are given and laid into the pack, and empties their lanes.
    void evaluate_neighbours(const Point& from, int count, Stage stage, double* values);
    void add(std::vector<Point> points);     // at most `LANES`
    bool late() const;
    bool draw_neighbour(const Chain& chain, Changes& changes);  // into near_, which is the chain's point
    void step(Chain& chain, double temperature);

    Layer layer_;
    MapSpace space_;
    Objective objective_;
    std::optional<RoomPack> room_;           // in every lane
    Random random_;
    Evaluator evaluator_;
    Workspace& work_ = evaluator_.work;
    std::vector<Chain> chains_;
    Point near_;                             // a neighbour; scratch
    std::vector<Changes> changes_;           // [LANES]; how the neighbours in the pack differ from the present point
    Changes picked_;                         // those of the best neighbour that a chain tried
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
