// Shared loops of a fused group as every layer sees them, in closed form.
//
// fusion/groups/tile_steps.py walks through all steps of a group, which is exact and too slow for thousands of tile
// sizes. Here a step counts as the average one where steps are summed up, and as the largest where they must fit.
// `tile_steps` is the authority: `fetched` is the closed form of `StepClass.fresh`, `held` of `operand_words` and
// `intermediate_words`, `outlasting` of `outlasting_words`; tests/network/test_candidates.py holds them together.

#pragma once

#include <vector>

#include "layer.hpp"

namespace fadiff {

using Loops64 = std::uint64_t;  // a set of shared loops, one bit each

// The window through which points of a consumer's dimension read an intermediate (workload/window_slide.py, WindowSlide).
struct ReadSlide {
    double span = 1, stride = 1;              // points under one output; points from one output to the next
    double shrink = 1, lead = 0, block = 1;   // resizing: points that one input point stands for, and so on
    double ahead = 0, advance = 1;            // padding before the first point; points to the next output on average

    double reach(double points) const;
};

struct FusedSpace {
    std::vector<Rank> ranks;
    Dims relevant = 0;
    bool written = false;

    const Rank& moved_by(int dim) const;
    double words(const double* extents) const;
};

double extent_of(const Rank& rank, const double* extents);

// Units side by side of one mapping of a layer, and its cycles of everything but the outermost level.
struct SideBySide {
    double compute = 0;
    std::vector<double> lanes;                   // [D]
};

// A layer of a group, with what is known of its mapping by itself (network/tilings/layer_estimate.py, LayerBase).
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

// One shared loop as one layer sees it, for one tile size.
struct LoopCut {
    int dim = -1;         // the layer's dimension that it moves, -1 for none
    double steps = 1;     // steps in which the layer works
    double points = 1;    // points of `dim` computed in all steps together
    double first = 1;     // points computed in the first step, with nothing retained yet and padding before it
    double later = 1;     // points computed in any later step
    double needed = 1;    // points that the next layer wants in one step, at most
    double advance = 1;   // points by which these move on from one step to the next

    double usual() const { return steps > 1 ? later : first; }
    double largest() const { return first > usual() ? first : usual(); }
    double average() const { return points / steps; }
};

struct Cuts {
    int loops = 0;
    std::vector<LoopCut> of;  // [layer][loop]

    const LoopCut& at(int layer, int loop) const { return of[std::size_t(layer) * loops + loop]; }
};

// Carries loops over `dims` of the last layer, in tiles of `sizes`, back to the first; `retained`: for each link the
// loops along which its words are retained.
void cut_layers(const FusedSegment& segment, const std::vector<int>& dims, const double* sizes,
                const std::vector<Loops64>& retained, Cuts& cuts);

// How often a layer does its work, averaged over its points: 1 without recomputation.
double computed(const FusedLayer& layer, const LoopCut* cuts, int loops);

// Words of a data space that come from outside over all steps, where words stay along the loops `across`.
double fetched(const FusedLayer& layer, int tensor, const LoopCut* cuts, int loops, Loops64 across);

// Words that lie there at once while a data space stays; with the link that leads out, the next layer's needs count.
double held(const FusedLayer& layer, int tensor, const LoopCut* cuts, int loops, Loops64 across,
            const FusedLink* link = nullptr);

// Words of an intermediate that stay live while the other layers run: none without a retaining loop, the halo of
// consecutive steps if the innermost loop is the only one, else all that lies there.
double outlasting(const FusedLayer& layer, const LoopCut* cuts, int loops, Loops64 across, const FusedLink& link);

// Extents of a layer's largest tile, [D].
void largest_tile(const FusedLayer& layer, const LoopCut* cuts, int loops, double* extents);

}  // namespace fadiff
