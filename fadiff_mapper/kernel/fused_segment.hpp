// A segment of a network's layers, as tables for the estimates of fused groups.

#pragma once

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "layer.hpp"

namespace fadiff {

using Loops64 = std::uint64_t;  // a set of shared loops, one bit each
using Spaces = std::uint32_t;   // a set of data spaces, one bit each

// The window through which points of a consumer's dimension read an intermediate (WindowSlide of
// workload/window_slide.py).
struct ReadSlide {
    double span = 1, stride = 1;              // points under one output; points from one output to the next
    double shrink = 1, lead = 0, block = 1;   // resizing: outputs per input; of these, before the window; points counted as one
    double ahead = 0, advance = 1;            // padding before the first point; points to the next output on average

    bool resizes() const { return shrink != 1 || block != 1; }
};

// The share of lanes at work on a number of points: the largest divisor of the points that is at most the lanes, over the
// lanes. Tabulated up to 2^16 points, above most bounds, as divisors take long to find.
struct BusyLanes {
    double lanes;
    std::vector<double> table;

    BusyLanes(double bound, double lanes) : lanes(lanes), table(std::size_t(std::min(bound, 0x1p16)) + 1, 1 / lanes) {
        for (std::size_t size = 2; double(size) <= lanes && size < table.size(); ++size)
            for (std::size_t points = size; points < table.size(); points += size) table[points] = double(size) / lanes;
    }
    double of(std::size_t points) const {
        if (points < table.size()) return table[points];
        std::size_t size = std::min(points, std::size_t(lanes));
        while (size > 1 && points % size) --size;
        return double(size) / lanes;
    }
};

// Units side by side in one mapping of a layer, and its cycles without the outermost level.
struct SideBySide {
    double compute = 0;
    std::vector<double> lanes;                            // [D]
    std::vector<std::shared_ptr<const BusyLanes>> busy;   // [D]; null for a single lane
};

// A layer of a group, with numbers of its unfused mappings (fusion/estimates.py, LayerBase).
struct FusedLayer {
    std::vector<double> bounds;                  // [D]
    std::vector<DataSpace> spaces;               // [T]; terms of a rank by rising coefficient
    int output = 0, linked = -1;                 // data spaces; linked: the intermediate from the layer right before
    Spaces handed = 0;                           // all intermediates from earlier layers
    double inside = 0;                           // pJ without the outermost level
    std::vector<SideBySide> known;               // mappings, the fastest first
    double sums_room = 0;                        // words of output that can be summed up at once
    double read = 0, write = 0;                  // pJ per word of the outermost level
    double words_per_cycle = 0;                  // bandwidth of the outermost level
    std::vector<double> home_reads, home_price;  // [H][T] words that each home sends in the unfused layer; [H] pJ per word

    int dims() const { return int(bounds.size()); }
    const std::vector<double>& lanes() const { return known[0].lanes; }
    bool moves(int tensor, int dim) const { return spaces[tensor].relevant >> dim & 1; }

    // The rank of a data space that a dimension moves.
    const Rank& rank_of(int tensor, int dim) const {
        const Rank* rank = spaces[tensor].ranks.data();
        while (!(rank->dims >> dim & 1)) ++rank;
        return *rank;
    }

    // Adds a mapping; lanes: [D].
    void know(double compute, const std::vector<double>& lanes) {
        SideBySide own{compute, lanes, {}};
        for (int dim = 0; dim < dims(); ++dim) {
            const auto same = std::find_if(known.begin(), known.end(),
                                           [&](const SideBySide& other) { return other.lanes[dim] == lanes[dim]; });
            own.busy.push_back(lanes[dim] <= 1 ? nullptr
                               : same != known.end() ? same->busy[dim]
                               : std::make_shared<const BusyLanes>(bounds[dim], lanes[dim]));
        }
        known.push_back(std::move(own));
    }
};

// A link from a layer to a later one; tables are by dimension of the producer.
struct FusedLink {
    std::vector<int> theirs;         // the consumer's dimension that moves along it, -1 for none
    std::vector<ReadSlide> slides;
    std::vector<double> stored;      // points per stored point, more than 1 behind a pool
    double lying = 1, lying_per = 1; // words in the home per word of the intermediate, as a fraction
    double elsewhere = 0;            // share of the consumer's operand that comes from the outermost level
    bool beside = false, written_whole = false, written_pooled = false;
    int distance = 1;                // layers from the producer to the consumer
};

// A data space `tensor` of `layer` that is also `first_tensor` of an earlier layer, `first`.
struct SharedOperand {
    int layer, tensor, first, first_tensor;
};

struct FusedSegment {
    std::vector<FusedLayer> layers;
    std::vector<FusedLink> links;    // one fewer than layers
    std::vector<SharedOperand> shared;
    double repeat = 1;

    int reader(int link) const { return link + links[link].distance; }
};

struct Refetch {
    std::vector<double> times;  // [T]; times that each passing operand is fetched
    bool fits = false;          // whether any schedule fits
};

// Fills in the refetches of one tile. `tile`: extents, [D]; `passing`: operands fetched in every step; `staying`: operands that
// are in the home, along whose dimensions the other operands come in whole; `by`: operands that may bypass the home; `room`:
// words of the home for other passing operands; `sums_room`: words of output that can be summed up at once.
void refetched(const FusedLayer& layer, const double* tile, Spaces passing, Spaces staying, Spaces by, double room,
               double sums_room, Refetch& found);

}  // namespace fadiff
