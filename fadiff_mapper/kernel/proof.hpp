// Lower bounds of parts of a map space, and the search of a part for a mapping below a limit (docs/theory/lower_bound.md).
//
// A part fixes all spatial factors and the kept data spaces (its scheme), and the temporal loops of the outermost levels. Loops
// further in are open. All kinds of reuse are allowed, factors divide their dimension, outputs have no windows.

#pragma once

#include <limits>
#include <map>
#include <optional>
#include <set>
#include <vector>

#include "columns.hpp"
#include "evaluate.hpp"
#include "map_space.hpp"
#include "scheme_walk.hpp"

namespace fadiff {

// A mapping is better than another one only by more than this share: sums of the model differ in their last bits.
constexpr double PROOF_TOLERANCE = 1e-9;

// Temporal loops that the constraints leave open: factors by level and dimension, orders by level, innermost first: `inner`,
// then `between` in any order, then `outer`.
struct OpenLoops {
    std::vector<std::vector<double>> factors;                      // [L][D]
    std::vector<std::vector<std::uint8_t>> inner, between, outer;  // [L]
};

// Temporal loops of one level.
struct LevelLoops {
    std::vector<double> factor;         // [D]
    std::vector<std::uint8_t> order;    // [D]; innermost first
};

// A part of a larger part: its bound, and its loops of the next level.
using Part = std::pair<double, LevelLoops>;

struct Searched {
    bool whole = true;                    // whether the budget sufficed
    double least = 0;                     // bound of mappings with too many orders to evaluate; infinite without such mappings
    double value = 0;                     // value of the best mapping below the limit; infinite without such a mapping
    std::size_t parts = 0, mappings = 0;  // bounded parts, evaluated mappings
    std::optional<Mapping> best;
};

class Prover {
public:
    // `room`: room of one mapping; empty: the whole capacity.
    Prover(const Layer& layer, std::vector<double> bounds, OpenLoops open, Metric metric, const Price& price,
           const RoomColumns& room = {});

    // Starts with the parts of a scheme. Returns the bound of all its mappings; infinite if it has no mapping.
    double begin(const Scheme& scheme);

    // Whether the layouts of the scheme's spatial loops are known.
    bool placed() const { return !scheme_.layouts.empty(); }

    // The number of parts of a part, and its parts with a bound below a limit.
    std::pair<std::size_t, std::vector<Part>> divided(const std::vector<LevelLoops>& outer, double limit);

    // Searches a part for mappings below a limit, until `budget` parts and mappings have been bounded and evaluated.
    Searched search(const std::vector<LevelLoops>& outer, double limit, std::size_t budget);

    const Layer& layer() const { return layer_; }

private:
    // Distances to neighbours in tiles, [D], each with the share of receivers that have such a neighbour; largest share first.
    using Apart = std::vector<std::pair<std::vector<double>, double>>;
    struct Crossing {  // a data space between two levels that keep it, while no level between them does
        int tensor, inner, outer;
        double scatter = 1;                       // receivers of one sender with distinct words
        bool written = false, neighbours = false; // an output; receivers may hand on words of a window
        double first_inner = 0, first_outer = 0;  // words of an instance that are written before they are read
        Apart apart;
        // [D]; of a register below all open loops: its tile, and points of a step of the innermost loop over each dimension; no
        // steps: unknown
        std::vector<double> tile, step;
        // By level further out than the receiver, within one instance of the level: the least number of receivers with distinct
        // words, and the largest number of all receivers.
        std::vector<std::pair<double, double>> within;
    };
    struct Loop {
        int dim, level;
        double bound, step;    // iterations; points from one iteration to the next
        bool several = false;  // whether it may be split over levels: steps are multiples of `step`

        // Built in place: reading a copy in other pieces than it was written stalls processors.
        Loop(int dim, int level, double bound, double step, bool several = false)
            : dim(dim), level(level), bound(bound), step(step), several(several) {}
    };
    struct Words {
        double received, sent;  // by one receiver, also from neighbours; by the sender, per receiver with distinct words
        bool loose = false;     // whether they are bounds, not exact numbers
    };
    struct Frame {  // loops further out than a level are decided
        std::vector<double> tile;           // [D]; points of the level's tile
        std::vector<double> visits;         // [T]; iterations of the innermost loop that moves the tile, and of loops outside it
        double outside = 1;                 // iterations of all decided loops
        double energy = 0, accessed = 0;    // decided pJ, and decided accesses of the outermost level
        std::vector<double> reads, writes;  // [L]; decided words per instance
        bool loose = false;                 // whether mappings with these loops still differ in their cost
        std::size_t loops = 0;              // number of entries of `loops_`
        Dims decided = 0;                   // dimensions whose loop at the next level outwards is decided
        // For frames of the next level inwards with only some decided dimensions: dimensions whose loop can be the innermost,
        // and words of each crossing to a register below all open loops, by the innermost dimension, [C][D].
        Dims first = 0;
        std::vector<Words> moved;
    };
    struct Calls {
        double bound, received, sent;  // iterations of a loop; shares of the tile that an iteration delivers, and that are read

        Calls(double bound, double received, double sent) : bound(bound), received(received), sent(sent) {}
    };
    struct Range {  // possible moves of a tile along a rank
        double least = 0, most = 0, unit = 0;
        int unknown = 0;  // loops with several possible numbers of steps; a step is `unit` words if there is one such loop
    };
    struct Order {
        std::vector<std::uint8_t> order;  // [D]
        std::vector<Dims> idle;           // [T]; loops inside the innermost one that moves the data space
        std::vector<int> mover;           // [T]; the dimension of this innermost loop, if it belongs to a window; else -1

        bool covers(const Order& other) const;
    };

    double distinct(int t, const double* points, bool box) const;
    bool take_spatial(const std::vector<double>& before);
    double value(double energy, double cycles, double accessed) const { return metric_of(metric_, energy, cycles, accessed, price_); }
    void charge(const Crossing& crossing, const Words& words, double& energy, double* reads, double* writes,
                double& accessed) const;
    Apart receivers_apart(int level, int t) const;
    Words decided_words(const Crossing& crossing, const Frame& frame) const;
    Words window_words(const Crossing& crossing, const double* tile) const;
    void find_steps(Crossing& crossing) const;
    Words moved_words(const Crossing& crossing, const Frame& frame, int level, int first, const Words& least) const;
    Words least_words(const Crossing& crossing, const Frame& frame, int level) const;
    Dims innermost(const Frame& frame, int level) const;
    double bound(const Frame& frame, int level, double enough = -std::numeric_limits<double>::infinity()) const;
    std::vector<int> moved(int level) const;
    Order ordered(int level, Dims looping, const std::vector<std::uint8_t>& between) const;
    const std::vector<Order>& orders(int level, Dims looping);
    bool fits(int level, const double* tile) const;
    bool enter(int level, const double* factor, const Order* order, Dims decided);
    bool start(const std::vector<LevelLoops>& outer);
    template <typename Visit>
    void each_child(int level, Visit visit);
    void descend(int level);
    void leaf();
    void permute(int level, Mapping& mapping);
    void evaluate_later(const Mapping& mapping);
    void flush();

    const Layer& layer_;
    std::vector<double> bounds_;  // [D]
    OpenLoops open_;
    Metric metric_;
    Price price_;   // for Metric::SHARE
    std::vector<double> free_;             // [L]; words that may be filled beside other tensors; empty: all
    std::vector<std::uint8_t> counted_;    // [L][T]; whether a data space needs room of its own in them
    std::optional<RoomPack> room_;         // the same room in every lane
    int levels_, dims_, tensors_;
    double macs_ = 1;
    Dims every_;    // all dimensions
    std::vector<std::uint8_t> plain_;             // [T]; whether tiles of any size are disjoint: no windows, no strides
    std::vector<Dims> own_, shared_, windows_;    // [T]; dimensions with ranks of their own; of windows; of several ranks
    std::vector<std::vector<std::vector<std::pair<std::size_t, double>>>> moves_;  // [T][D]; ranks that a point moves, distances
    std::vector<std::uint8_t> place_;             // [L][D]; loops of a lesser place are inside loops of a greater place
    std::vector<std::vector<std::vector<Rank::Term>>> terms_;  // [T], by rank; without dimensions of earlier ranks

    // Cache by [L][T] and spatial factors of a scheme, with its layouts: the best-first search returns to a scheme many times.
    std::map<std::pair<std::size_t, std::vector<double>>, std::pair<std::vector<Layout>, Apart>> apart_;

    // The scheme, and numbers that depend on it.
    Scheme scheme_;
    std::vector<double> scatter_;                 // [L][T]; least number of receivers of one instance with distinct words
    std::vector<double> most_;                    // [L][D]; points of a level's tile without temporal loops outside
    std::vector<double> used_, per_block_;        // [L]; instances; accesses of all instances for a block of each
    std::vector<double> leaking_;                 // [L]; pJ per cycle
    std::vector<Crossing> crossings_;             // the innermost receiver first
    std::vector<std::vector<double>> reach_;      // [L][D]; points that the loops of a level and those inside can have, ascending
    double cycles_ = 1, fixed_energy_ = 0, fixed_accessed_ = 0;  // of the arithmetic, and of accesses by the arithmetic
    std::vector<double> fixed_reads_, fixed_writes_;             // [L]; words read and written by the arithmetic
    int first_open_ = 0;                          // the innermost level that can have temporal loops
    std::vector<Dims> cheaper_;                   // [D]; dimensions whose loop, if innermost, moves a subset of the tiles
    bool reaches_bounds_ = false;                 // whether temporal loops can complete the spatial factors to the bounds
    bool apart_loose_ = false, loose_ = false;    // see Frame::loose; the former by the spatial factors only
    std::vector<std::map<Dims, std::vector<Order>>> orders_;     // [L]; by the loops of several iterations
    // [L]; every order that one of these orders covers, by the loops of several iterations and the covering order
    std::vector<std::map<std::pair<Dims, std::vector<std::uint8_t>>, std::vector<std::vector<std::uint8_t>>>> covered_;

    // State of the search.
    std::vector<Frame> frames_;                   // [L]
    std::vector<Loop> loops_;                     // the outermost first
    std::vector<LevelLoops> chosen_;              // [L]
    double limit_ = 0;
    std::size_t budget_ = 0, count_ = 0;
    Searched found_;
    Workspace work_;
    std::vector<Mapping> waiting_;
    mutable std::vector<double> reads_, writes_;  // [L]; scratch
    mutable std::vector<double> open_reads_, open_writes_;  // [L]; scratch
    mutable std::vector<Loop> moving_;            // loops outside a receiver, from the innermost one that moves its tile; scratch
    mutable std::vector<Calls> calls_;            // scratch
    mutable std::vector<Words> least_;            // words to registers below all open loops, by crossing; scratch
    mutable std::vector<double> near_, still_, step_;  // moves, [R]: to neighbours, zero, of a step; scratch
    mutable std::vector<Range> ranges_, inside_;  // [R]; moves of a loop, of all loops further in; scratch
    mutable std::vector<double> iterations_;      // [D]; iterations of the open loops over a dimension; scratch
    mutable std::vector<double> extents_;         // [R]; scratch
    struct Children {                             // scratch of the choices of one level's loops
        std::vector<std::vector<double>> options; // [D]
        std::vector<double> factor;               // [D]
    };
    std::vector<Children> children_;              // [L]
};

}  // namespace fadiff
