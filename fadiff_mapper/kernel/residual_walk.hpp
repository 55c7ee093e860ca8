// Mappings with residual factors, exactly as Timeloop walks them.
//
// A loop with `bound` iterations and a residual runs only `last` of them where every loop of its dimension further out is
// in its last iteration. As without residuals, Timeloop runs iterations 0 and 1 of a temporal loop, and iteration 1 stands
// for all later ones. If all loops of the dimension further out are in their last iteration and a loop further in has a
// residual, it also runs the last iteration, and if the loop itself has a residual, the last but one, too. Of spatial loops
// it walks only the first receiver: all other receivers get the same words, shifted.
//
// The walk makes a call for each iteration that is run, of all loops together. All numbers but the words that cross
// boundaries have closed forms (model/tiles.py).

#pragma once

#include <memory>
#include <utility>

#include "receivers.hpp"

namespace fadiff {

using Position = std::int64_t;  // a coordinate of a data space

// A set of words as disjoint boxes: lower corners [box][R] and upper corners (exclusive).
struct Boxes {
    int ranks = 0, count = 0;
    std::vector<Position> low, high;

    void clear(int of_ranks) { ranks = of_ranks, count = 0, low.clear(), high.clear(); }
    void add(const Position* lower, const Position* upper) {
        low.insert(low.end(), lower, lower + ranks), high.insert(high.end(), upper, upper + ranks), ++count;
    }
};

// Most calls of a walk; mappings with more are not walked. A walk of this length takes seconds, far more than walks in
// searches.
constexpr double MOST_CALLS = 0x1p24;

// Results of one mapping, cells [L][T].
struct ResidualTraffic {
    std::vector<Tally> tally;
    std::vector<double> links;  // words that receivers take from a neighbouring receiver
};

class ResidualWalk {
public:
    // The walk of the mapping in one lane, whose tiles are laid.
    ResidualWalk(const Layer& layer, const MappingPack& pack, const Tiles& tiles, int lane, bool with_hops);

    double calls() const { return calls_; }  // calls of a run; infinite if too many to count
    bool walkable() const { return calls_ <= MOST_CALLS && fan_ <= MOST_RECEIVERS; }
    ResidualTraffic run();                   // only for walkable mappings, and only once

private:
    struct Loop {
        int dim = 0, bound = 1, last = 1;
    };
    // The receivers of a fan-out while some of its loops (a bit each) are in a shorter last run.
    struct Receivers {
        unsigned ended;
        FanOut fan_out;
        std::vector<Grid> grids;            // [T]
    };
    // A temporal loop, or all spatial loops of one fan-out.
    struct Node {
        int level;                          // storage level
        bool spatial = false, sender = false;  // sender: the innermost node of its level
        Loop loop;                          // a temporal loop
        Position points = 1;                // points of its dimension from one iteration to the next
        std::vector<Loop> fan;              // loops of a fan-out
        std::vector<std::unique_ptr<Receivers>> receivers;  // without a shorter last run, then each as it is met
        std::vector<Position> whole, rest;  // [D]; points of the tile, and of the last tile
        std::vector<double> sum, before;    // [T]; words of the present call, and of its last counted iteration
    };
    // The state of a node for one data space.
    struct Memory {
        bool filled = false, moving = false;
        std::vector<Position> low, high, step;
        Boxes sent;                              // of a fan-out: words sent to its first receiver in the previous call
        Receivers* receivers = nullptr;          // receivers in the previous call
    };

    bool is_last(int dim) const { return pending_[dim] == 0; }
    double count_calls() const;
    void call(int node, bool boxes);
    void run_temporal(int node);
    void run_fan_out(int node);
    void deliver(int node, int tensor, Receivers& receivers);
    void find_tile(const Node& node, int tensor);
    void remember(int node, int tensor, bool boxes);
    Receivers& receivers_of(Node& node, unsigned ended);
    Grid& placed(const Node& node, int tensor, Receivers& receivers);
    Memory& memory(int node, int tensor) { return memories_[std::size_t(node) * layer_.tensors + tensor]; }
    std::size_t cell(int level, int tensor) const { return std::size_t(level) * layer_.tensors + tensor; }

    const Layer& layer_;
    bool with_hops_;
    std::vector<Node> nodes_;             // innermost first
    std::vector<Memory> memories_;        // [node][T]
    std::vector<Position> at_;            // [D]; the first point of the present tile
    std::vector<int> pending_;            // [D]; number of loops further out that are not in their last iteration
    std::vector<int> imperfect_;          // [D]; innermost node of the dimension with a residual, or a large number
    double epochs_ = 1, calls_ = 0, fan_ = 1;  // fan_: the largest fan-out
    std::vector<Position> low_, high_, step_, corners_;
    std::vector<double> move_;
    std::vector<double> words_;           // [T]; words of the last delivery of a call
    std::vector<Boxes> boxes_;            // [T]; these words as boxes, if the caller is a fan-out
    Tally rest_;
    Grid connected_;                      // see count_groups
    ResidualTraffic found_;
};

}  // namespace fadiff
