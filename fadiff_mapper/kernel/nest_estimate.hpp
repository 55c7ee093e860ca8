// Estimates of one nest of shared loops: many tile sizes and all residency choices.
//
// For one order of loops, tile sizes and resident operands trade room in the home level against traffic to the outermost
// level. An operand from outside passes, or stays along the innermost loop whose steps share its words, or along more such
// loops from the inside, as long as each saves words. All combinations are priced up to a limit; beyond it, two greedy
// sequences. A nest is skipped if work and the fewest reads of each operand show that no choice can be below the price
// limit. Pricing has two stages: `lower` fetches every passing operand once per step; `best` adds the refetches of tiles
// that do not fit, for the most promising sizes of one choice.
//
// A layer's unfused mapping gives its energy and cycles on the chip; fusion replaces its traffic to the outermost level,
// and multiplies its work where halos are recomputed. Latency is the roofline of FADiff eq. (16).

#pragma once

#include <optional>

#include "fused_segment.hpp"

namespace fadiff {

// Numbers over the B tile sizes, padded to whole packs of eight with the last number.
using PerSize = std::vector<double>;

// A residency of an operand that comes from outside the group.
struct Residency {
    bool stays = false;
    Loops64 across = 0;   // loops along which it stays
    PerSize words, reads;  // words in the home; words fetched from outside over all steps
    PerSize inward;        // words that the home sends inwards beyond those of the unfused layer
};

struct Operand {
    int layer, tensor;
    int leader;                          // number of the operand of an earlier layer that fetched it; -1 for none
    std::vector<Residency> residencies;  // passing first
};

// The place of the last layer's partial sums between the steps that add to them: the level where they are added, the home, or
// the outermost level.
enum class SumsRest { Inside, Home, Outermost };

struct NestOptions {
    int home = 0;              // number of the home in the layers' tables
    double usable = 0;         // usable words of the home
    std::vector<int> dims;     // loops over dimensions of the last layer, outermost first
    std::vector<Loops64> retained;  // for each link the loops along which its words are retained
    SumsRest sums = SumsRest::Inside;
    bool resting = false;      // whether unfinished sums of an intermediate may rest in the home
};

struct Sized {
    double price, energy, cycles;
    std::size_t column;     // number of the tile sizes
};

class NestEstimate {
public:
    // `sizes`: [loops][B], the tile sizes. No choices are listed where none can have a price below the limit.
    NestEstimate(const FusedSegment& segment, NestOptions options, const std::vector<double>& sizes,
                 std::size_t batch, const Price& price, double limit);

    std::size_t choices() const { return picks_.size(); }
    const std::vector<Operand>& operands() const { return operands_; }

    // The number of the residency of each operand in a choice.
    const std::vector<int>& choice(std::size_t row) const { return picks_[row]; }

    // For each choice the least lower price over all tile sizes; infinite where nothing fits.
    std::vector<double> lower(const Price& price) const;

    // The best tile sizes of a choice with a price below `bar`, refetches of passing operands included.
    std::optional<Sized> best(std::size_t row, const Price& price, double bar) const;

private:
    // Energy, cycles on the chip, and words from and to the outermost level of a layer, without operands from outside; `room`,
    // `sums`: words left for these operands, and for sums.
    struct Work {
        PerSize energy, compute, words, room, sums;

        explicit Work(std::size_t padded)
            : energy(padded), compute(padded), words(padded), room(padded), sums(padded) {}
    };
    class Packs;  // the loop cuts of all layers at some tile sizes; made of vectors, so it is not defined here (setup.py)

    void lay_out(const Packs& packs, std::size_t pack);
    void lay_out_work(const Packs& packs, std::size_t pack, int layer);
    bool may_undercut(const Packs& packs, std::size_t pack, const Price& price, double limit) const;
    std::vector<SharedOperand>::const_iterator shared_with(int layer, int tensor) const;
    void list_residencies(const Packs& packs);
    int leader_of(const Packs& packs, int layer, int tensor) const;
    void list_choices();

    // Calls `found` with the prices of some choices, as for `lower`, for every pack of eight tile sizes of which one fits: number
    // of the choice, from the first one on, column of the first size, prices (infinite where a size does not fit).
    template <typename Found>
    void each_price(std::size_t from, std::size_t to, const Price& price, Found found) const;

    const FusedSegment& segment_;
    NestOptions options_;
    std::size_t batch_, padded_;   // number of tile sizes, and of these padded to whole packs
    PerSize sizes_;                // tile sizes, one loop after the other
    std::vector<Work> work_;       // [layer]
    PerSize least_room_;
    std::vector<Operand> operands_;
    std::vector<std::size_t> first_operand_;    // number of each layer's first operand, and the end
    std::vector<std::vector<int>> picks_;
};

}  // namespace fadiff
