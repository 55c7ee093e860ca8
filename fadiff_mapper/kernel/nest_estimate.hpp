// Estimates of one nest of shared loops: many tile sizes and all residency choices.
//
// For one order of loops, tile sizes and resident operands trade the room in the home level against traffic to the
// outermost one. An operand from outside passes, or it stays along the innermost of the loops whose steps share words
// of it, along more and more of them as long as that saves words. All combinations are priced up to a limit; beyond,
// two greedy sequences. Pricing has two stages: `lower` brings every passing operand in once per step; `best` adds the
// refetches of tiles that do not fit, for the most promising sizes of one choice.
//
// Refetches. A tile that is larger than the home level streams its operands through it, some of them several times. A
// layer of two operands X and W multiplies `a` rows of outputs that X moves with `b` columns that W moves, as a matrix
// product does. Three schedules are compared, known as input, weight and output stationary: a block of X stays while W
// streams by, a block of W stays while X streams by, or a block of outputs is summed up while both stream by. The one
// with the fewest words moved counts. Operands stream by in slices along the reduction dimensions, as thin as the lanes
// allow. A sliding window is there whole, or it comes again for the points of all its dimensions but one.
//
// A layer's best mapping by itself gives its energy and cycles on the chip; fusion replaces its traffic with the
// outermost level and multiplies its work where halos are recomputed. Latency is the roofline of FADiff eq. (16).

#pragma once

#include <cstdint>

#include "fused_segment.hpp"
#include "price.hpp"

namespace fadiff {

using Spaces = std::uint32_t;  // a set of data spaces, one bit each

struct Refetch {
    std::vector<double> times;  // [T]; how often each passing operand comes in
    bool fits = false;          // whether any schedule fits
};

// `tile`: extents, [D]; `passing`: operands fetched in every step; `staying`: operands that are there already, along
// whose dimensions the others come in whole; `room`: words of the home for the passing ones; `sums_room`: words of
// output that can be summed up at once.
void refetched(const FusedLayer& layer, const double* tile, Spaces passing, Spaces staying, double room,
               double sums_room, Refetch& found);

// Numbers over the B tile sizes, filled up to whole packs of eight with the number of the last.
using PerSize = std::vector<double>;

// A residency of an operand that comes from outside the group.
struct Residency {
    bool stays = false;
    Loops64 across = 0;   // loops along which it stays
    PerSize words, reads;  // words that lie there; words fetched from outside over all steps
};

struct Operand {
    int layer, tensor;
    std::vector<Residency> residencies;  // passing first
};

struct NestOptions {
    int home = 0;              // number of the home among those of the layers' tables
    double usable = 0;         // its words
    std::vector<int> dims;     // loops over dimensions of the last layer, outermost first
    std::vector<Loops64> retained;  // for each link the loops along which its words are retained
    bool spilled = false;      // sums that go on leave the chip in between
};

struct Sized {
    bool found = false;
    double price = 0, energy = 0, cycles = 0;
    std::size_t column = 0;    // the tile sizes
};

class NestEstimate {
public:
    // `sizes`: [loops][B], the tile sizes.
    NestEstimate(const FusedSegment& segment, NestOptions options, const std::vector<double>& sizes,
                 std::size_t batch);

    std::size_t choices() const { return picks_.size(); }
    const std::vector<Operand>& operands() const { return operands_; }

    // For each operand the number of its residency.
    const std::vector<int>& choice(std::size_t row) const { return picks_[row]; }

    // The least lower price of a choice over all tile sizes; infinite where nothing fits.
    double lower(std::size_t row, const Price& price) const;

    // The best tile sizes of a choice below a price, with passing operands brought in as often as they must be.
    Sized best(std::size_t row, const Price& price, double bar) const;

private:
    struct Work {  // of a layer, apart from operands from outside; `room`, `sums`: words left for these and for sums
        PerSize computed, compute, reads, writes, extra, room, sums;

        explicit Work(std::size_t padded)
            : computed(padded), compute(padded), reads(padded), writes(padded), extra(padded), room(padded),
              sums(padded) {}
    };
    class Packs;  // the loops as all layers see them, in all tile sizes; made of vectors, so not known here (setup.py)

    void lay_out(const Packs& packs, std::size_t pack);
    void lay_out_work(const Packs& packs, std::size_t pack, int layer);
    void list_residencies(const Packs& packs);
    void list_choices();

    class Priced;  // made of vectors, too
    void cost(const std::vector<int>& pick, std::size_t column, const std::vector<Refetch>* refetches,
              Priced& priced) const;

    // Prices of a choice in all tile sizes, [B], as `lower` takes them; infinite where the choice does not fit.
    std::vector<double> prices_by_size(std::size_t row, const Price& price) const;

    const FusedSegment& segment_;
    NestOptions options_;
    std::size_t batch_, padded_;   // tile sizes, and those filled up to whole packs
    PerSize sizes_;                // tile sizes, one loop after the other
    std::vector<Work> work_;       // [layer]
    PerSize least_room_;
    std::vector<Operand> operands_;
    std::vector<std::vector<int>> picks_;
};

}  // namespace fadiff
