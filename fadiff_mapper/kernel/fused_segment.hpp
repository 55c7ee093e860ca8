// A segment of a network's layers as estimates of fused groups need it: plain tables, made once.

#pragma once

#include <memory>
#include <vector>

#include "layer.hpp"

namespace fadiff {

using Loops64 = std::uint64_t;  // a set of shared loops, one bit each

// The window through which points of a consumer's dimension read an intermediate (WindowSlide of
// workload/window_slide.py).
struct ReadSlide {
    double span = 1, stride = 1;              // points under one output; points from one output to the next
    double shrink = 1, lead = 0, block = 1;   // resizing: points that one input point stands for, and so on
    double ahead = 0, advance = 1;            // padding before the first point; points to the next output on average
};

// Points along a rank that a tile of some extents touches.
template <typename Number>
Number extent_of(const Rank& rank, const Number* extents) {
    Number extent = 1;
    for (const Rank::Term& term : rank.terms) extent += term.coefficient * (extents[term.dim] - 1);
    return extent;
}

struct FusedSpace {
    std::vector<Rank> ranks;
    Dims relevant = 0;
    bool written = false;

    const Rank& moved_by(int dim) const;

    template <typename Number>
    Number words(const Number* extents) const {
        Number words = 1;
        for (const Rank& rank : ranks) words *= extent_of(rank, extents);
        return words;
    }
};

// The part of some lanes that is at work on a number of points: the largest divisor of the points that the lanes can
// take, over the lanes. Tabulated, as divisors take long to find.
class BusyLanes {
public:
    BusyLanes(double bound, double lanes);

    double of(std::size_t points) const { return points < table_.size() ? table_[points] : sought(points); }

private:
    double sought(std::size_t points) const;

    double lanes_;
    std::vector<double> table_;
};

// Units side by side of one mapping of a layer, and its cycles of everything but the outermost level.
struct SideBySide {
    double compute = 0;
    std::vector<double> lanes;                            // [D]
    std::vector<std::shared_ptr<const BusyLanes>> busy;   // [D]; null for a single lane
};

// A layer of a group, with what is known of its mapping by itself (fusion/estimates.py, LayerBase).
struct FusedLayer {
    std::vector<double> bounds;                  // [D]
    std::vector<FusedSpace> spaces;              // [T]
    int output = 0, linked = -1;                 // data spaces; linked: the intermediate that it reads
    double inside = 0;                           // pJ of everything but the outermost level
    std::vector<SideBySide> known;               // the fastest first
    double sums_room = 0;                        // words of output that can be summed up at once
    double read = 0, write = 0;                  // pJ per word of the outermost level
    double words_per_cycle = 0;                  // its bandwidth
    std::vector<double> home_reads, home_price;  // [H][T] words that each home gives by itself; [H] pJ per word

    int dims() const { return int(bounds.size()); }
    const std::vector<double>& lanes() const { return known[0].lanes; }
    bool moves(int tensor, int dim) const { return spaces[tensor].relevant >> dim & 1; }

    // Adds a mapping; lanes: [D].
    void know(double compute, std::vector<double> lanes);
};

// A link from a layer to the next one; tables are by dimension of the producer.
struct FusedLink {
    std::vector<int> theirs;         // the consumer's dimension that moves along it, -1 for none
    std::vector<ReadSlide> slides;
    std::vector<double> stored;      // points for each one that is stored, more than 1 behind a pool
    double lying = 1, lying_per = 1; // words that lie there per word of the intermediate, as a fraction
    double elsewhere = 0;            // part of the consumer's operand that comes from the outermost level
    bool beside = false, written_whole = false, written_pooled = false;
};

struct FusedSegment {
    std::vector<FusedLayer> layers;
    std::vector<FusedLink> links;    // one fewer
    double repeat = 1;
};

}  // namespace fadiff
