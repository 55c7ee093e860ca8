// The least cost of any fused group of a segment, by branch and bound.
//
// A part of all groups is an order of the shared loops, or all of them, a box of tile sizes, and for each intermediate the
// loops along which it stays, is made again, or may do either. Words that come in are those of the largest tiles of the
// box, room that is taken that of the smallest: no group of the part costs less. The part of the least price is divided, until
// that price is high enough. The rules, and why they hold, stand in docs/theory/planning.md.

#pragma once

#include <array>
#include <cstdint>
#include <utility>
#include <vector>

#include "fused_segment.hpp"

namespace fadiff {

// What no mapping of a layer in a group undercuts, all steps together.
struct LayerLeast {
    double energy = 0, cycles = 0;  // on the chip, without reads and fills of the home, each operation once
    double written = 0;             // words to the outermost level
    double done = 1;                // the part of the layer that groups need
    double fill = 0;                // pJ that a word from outside costs beside its read
    double unfinished = 0;          // words of sums that fit where they need not be finished
    bool streams = false;           // whether a tile's operands are known to come again for lack of room
    Spaces through = 0;             // operands that the home keeps in every mapping
    Spaces brought = 0;             // operands that an earlier layer may have brought
    std::vector<double> once;       // [T] distinct words
    std::vector<double> inward;     // [T] words that the home reads, each operation once
};

struct LoopOrder {
    std::vector<int> dims;  // dimensions of the last layer, outermost loop first; the same ones in every order
    bool spilled = false;   // whether sums that go on leave the chip in between
    bool open = false;      // whether it stands for all orders, in each of which sums leave the chip or stay
};

// The only level that can be a home.
struct HomeLevel {
    double usable = 0, bandwidth = 0;  // words; words that it reads in a cycle
};

constexpr std::size_t MOST_LOOPS = 8, MOST_LINKS = 16;   // of a group that is divided

// A part of all groups; words stay, or are made again, along loops: bits by position in the order.
struct GroupPart {
    int order = 0;
    std::array<std::uint8_t, MOST_LINKS> again{}, kept{};   // by link
    std::array<double, MOST_LOOPS> least{}, most{};         // tile sizes, by position in the order
    double energy = 0, cycles = 0;
};

class GroupBound {
public:
    // `orders`: the first one is open. `shared`: for each link the dimensions of the last layer along which steps share
    // words of the intermediate.
    GroupBound(const FusedSegment& segment, std::vector<LayerLeast> layers, HomeLevel home,
               std::vector<LoopOrder> orders, std::vector<std::vector<int>> shared);

    // The least price of all parts; infinite where no group fits.
    double lower(const Price& price) const;

    // Divides parts until the least price is at least `bar`, or that of a part that cannot be divided, or so many layers of
    // parts were bounded; returns their number.
    std::size_t refine(const Price& price, double bar, std::size_t most);

private:
    bool divide(const GroupPart& part, const Price& price, std::vector<GroupPart>& found) const;
    // Of parts of one order in which intermediates stay along the same loops.
    void evaluate(std::vector<GroupPart>& parts) const;

    const FusedSegment& segment_;
    std::vector<LayerLeast> layers_;
    HomeLevel home_;
    std::vector<LoopOrder> orders_;
    std::vector<std::vector<int>> shared_;
    std::vector<GroupPart> parts_;
};

}  // namespace fadiff
