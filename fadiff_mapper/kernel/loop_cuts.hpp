// Shared loops of a fused group as every layer sees them, in closed form, for eight tile sizes at once.
//
// fusion/tile_steps.py walks through all steps of a group, which is exact and too slow for thousands of tile
// sizes. Here a step counts as the average one where steps are summed up, and as the largest where they must fit.
// `tile_steps` is the authority: `fetched` is the closed form of `StepClass.fresh`, `held` of `operand_words` and
// `intermediate_words`, `outlasting` of `outlasting_words`; tests/fusion/test_candidates.py holds them together.

#pragma once

#include <vector>

#include "fused_segment.hpp"
#include "lanes.hpp"

namespace fadiff {
inline namespace FADIFF_LANES {

// One shared loop as one layer sees it.
struct LoopCut {
    int dim = -1;         // the layer's dimension that it moves, -1 for none
    Lanes steps = 1;      // steps in which the layer works
    Lanes points = 1;     // points of `dim` computed in all steps together
    Lanes distinct = 1;   // the same, each once
    Lanes first = 1;      // points computed in the first step, with nothing retained yet and padding before it
    Lanes later = 1;      // points computed in any later step
    Lanes needed = 1;     // points that the next layer wants in one step, at most
    Lanes advance = 1;    // points by which these move on from one step to the next
    Lanes ahead = 0, behind = 0;  // points of padding before the first one and behind the last one, of all later layers
    Lanes uneven = 0;     // above 0 where a bound counts tiles as of different sizes
    bool again = false;   // whether steps may compute the same points, as windows of later layers overlap

    Lanes usual() const { return select(steps > 1, later, first); }
    Lanes largest() const { return larger(usual(), first); }
    Lanes average() const { return points / steps; }
};

// Lanes for each dimension of a layer, or each loop. Only those in use are set, as clearing all
// of them would take long beside an estimate.
struct Box {
    union {
        Lanes lanes[64];
    };
    Box() {}
};

// Carries loops over `dims` of the last layer back to the first; `sizes`: of their tiles, [loops]; `retained`: for each
// link the loops along which its words are retained; `cuts`: [layer][loop], is filled. `least`: with points and steps that
// no group undercuts, instead of those of most groups.
void cut_layers(const FusedSegment& segment, const std::vector<int>& dims, const Lanes* sizes,
                const std::vector<Loops64>& retained, LoopCut* cuts, bool least = false);

// How often a layer does its work, averaged over its points: 1 without recomputation. `cuts`: of the layer, [loop].
Lanes computed(const FusedLayer& layer, const LoopCut* cuts, int loops);

// Words of a data space that come from outside over all steps, where words stay along the loops `across`; with words that
// strides leave out between others, which Timeloop's tiles contain, or without.
Lanes fetched(const FusedLayer& layer, int tensor, const LoopCut* cuts, int loops, Loops64 across, bool holes = true);

// Words of a box of some extents, without those that strides leave out, or fewer.
Lanes distinct_words(const DataSpace& space, const Lanes* extents);

// Words that lie there at once while a data space stays; with the link that leads out, the next layer's needs count. `last`: the
// last layer's cuts; its loops of a single step, along which nothing stays, may then stand anywhere, and the words are the least of
// all such places.
Lanes held(const FusedLayer& layer, int tensor, const LoopCut* cuts, int loops, Loops64 across,
           const FusedLink* link = nullptr, const LoopCut* last = nullptr);

// Words of an intermediate that stay live while the other layers run: none without a retaining loop, the halo of
// consecutive steps if the innermost loop is the only one, else all that lies there.
Lanes outlasting(const FusedLayer& layer, const LoopCut* cuts, int loops, Loops64 across, const FusedLink& link);

// Extents of a layer's largest tile, [D].
void largest_tile(const FusedLayer& layer, const LoopCut* cuts, int loops, Lanes* extents);

}  // namespace FADIFF_LANES
}  // namespace fadiff
