// Points of every layer in the steps of a fused group's shared loops, in closed form, for eight tile sizes at once.
//
// fusion/tile_steps.py walks through all steps of a group, which is exact and too slow for thousands of tile
// sizes. Here sums over steps use the average step, and capacities the largest step.
// `tile_steps` is the authority: `fetched` is the closed form of `StepClass.fresh`, `held` of `operand_words` and
// `intermediate_words`, `outlasting` of `outlasting_words`; tests/fusion/test_candidates.py holds them together.

#pragma once

#include <vector>

#include "fused_segment.hpp"
#include "lanes.hpp"

namespace fadiff {
inline namespace FADIFF_LANES {

// The steps of one shared loop in one layer.
struct LoopCut {
    int dim = -1;         // the layer's dimension that the loop moves, -1 for none
    Lanes steps = 1;      // steps in which the layer works
    Lanes points = 1;     // points of `dim` computed in all steps together
    Lanes distinct = 1;   // distinct points of `dim` computed in all steps together
    Lanes first = 1;      // points computed in the first step, before which nothing is retained and padding lies
    Lanes later = 1;      // points computed in any later step
    Lanes needed = 1;     // most points that the next layer reads in one step
    Lanes advance = 1;    // points by which the needed points move from one step to the next
    Lanes ahead = 0, behind = 0;  // points of padding, of all later layers, in front of the first and behind the last point
    Lanes uneven = 0;     // above 0 where a bound counts tiles as unequal
    Lanes skewed = 0;     // above 0 where steps move on by unequal numbers of points, as resizing cuts them
    bool again = false;   // whether steps may compute the same points, by overlapping windows or resizing of later layers

    // of a later step, if there are any or the first one has no points
    Lanes usual() const { return select((steps > 1.0) | !(first > 0.0), later, first); }
    Lanes largest() const { return larger(usual(), first); }
    Lanes average() const { return points / steps; }
};

// Lanes for each dimension of a layer, or each loop. Only entries in use are set, as clearing all
// of them would take long compared to an estimate.
struct Box {
    union {
        Lanes lanes[64];
    };
    Box() {}
};

// What bounds tiles in all sizes of a box: the cuts in the smallest one [layer][loop], and for each link the loops along which its
// words may be retained or computed again.
struct WidestTiles {
    const LoopCut* smallest;
    const std::vector<Loops64>& open;
};

// Carries loops over `dims` of the last layer back to the first layer, into `cuts` [layer][loop]. `sizes`: their tile sizes,
// [loops]; `retained`: for each link the loops along which its words are retained. `least`: fills in lower bounds of points
// and steps, instead of the usual numbers; with `widest`, the sizes are the largest ones of a box, and tiles are upper bounds where
// an output is resized or a first step may lie in padding.
void cut_layers(const FusedSegment& segment, const std::vector<int>& dims, const Lanes* sizes,
                const std::vector<Loops64>& retained, LoopCut* cuts, bool least = false, const WidestTiles* widest = nullptr);

// Times that a layer computes a point, on average: 1 without recomputation. `cuts`: of the layer, [loop].
Lanes computed(const FusedLayer& layer, const LoopCut* cuts, int loops);

// Words of a data space fetched from outside over all steps, if words stay along the loops `across`. `holes`: whether to count
// the words that strides skip, which Timeloop's tiles contain.
Lanes fetched(const FusedLayer& layer, int tensor, const LoopCut* cuts, int loops, Loops64 across, bool holes = true);

// At most the words of a box of these extents, without the words that strides skip.
Lanes distinct_words(const DataSpace& space, const Lanes* extents);

// Words of a data space that are in the home at once while it stays; with the link that leads out, as the next layer needs them.
// With `last`, the last layer's cuts, loops of a single step, along which no word stays, may lie anywhere in the order, and the
// words are the least over all these orders.
Lanes held(const FusedLayer& layer, int tensor, const LoopCut* cuts, int loops, Loops64 across,
           const FusedLink* link = nullptr, const LoopCut* last = nullptr);

// Words of an intermediate that are live while other layers run: none without a retaining loop, the halo of consecutive steps
// if only the innermost loop retains, else all its words in the home.
Lanes outlasting(const FusedLayer& layer, const LoopCut* cuts, int loops, Loops64 across, const FusedLink& link);

// Extents of a layer's largest tile, [D].
void largest_tile(const FusedLayer& layer, const LoopCut* cuts, int loops, Lanes* extents);

}  // namespace FADIFF_LANES
}  // namespace fadiff
