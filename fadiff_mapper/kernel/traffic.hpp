// Words that cross every boundary over the whole run, before levels that bypass a data space hand them outwards.
//
// Closed forms (those of model/temporal_reuse.py and model/access_counts.py) where they hold; where they may not, the
// walk of sliding windows and the count receiver by receiver.

#pragma once

#include "receivers.hpp"
#include "window_walk.hpp"

namespace fadiff {

// Traffic of one mapping; scratch that every mapping fills anew. Cells are [L][T].
struct Traffic {
    std::vector<double> wanted;   // words that one receiver asks for
    std::vector<Tally> tally;     // words that one instance of the level sends, by kind of transfer
    std::vector<double> links;    // words that receivers take from a neighbouring receiver instead, all together
    WindowWalk walk;
    Grid grid;
    GroupSizes groups;
    std::vector<double> last;     // [R]; scratch

    explicit Traffic(const Layer& layer)
        : wanted(std::size_t(layer.levels) * layer.tensors), tally(wanted.size()), links(wanted.size()) {}
};

// Fills in `wanted`. `with_hops`: also the boundaries below which the data space is bypassed are counted in full; their
// size matters to hops alone, since bypassing rescales their words.
void count_demand(const Layer& layer, const Mapping& mapping, const Loops& loops, bool with_hops, Traffic& traffic);

// Fills in `tally` and `links` from `wanted`.
void count_delivery(const Layer& layer, const Mapping& mapping, const Loops& loops, bool with_hops, Traffic& traffic);

}  // namespace fadiff
