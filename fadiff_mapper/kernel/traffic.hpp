// Words that cross every boundary over the whole run, before levels that bypass a data space hand them outwards.
//
// Closed forms (those of model/access_counts.py) and the walk of sliding windows for eight mappings at once; receivers that differ in a dimension of a window are counted one by one.

#pragma once

#include "receivers.hpp"
#include "window_walk.hpp"

namespace fadiff {

// Temporal loops that stand at one place of each lane's nest.
struct Row {
    Lanes bound, further;  // iterations; those of all loops further out together
    Mask present;          // the loop runs more than once
};

// Traffic of eight mappings; scratch that every pack fills anew. Cells are [L][T].
struct Traffic {
    std::vector<Lanes> wanted;                     // words that one receiver asks for
    std::vector<Lanes> words, multicast, scatter;  // the kind of transfer of the closed form
    std::vector<Lanes> links;                      // words that receivers take from a neighbouring receiver instead
    std::vector<std::uint8_t> counted;             // lanes whose receivers were counted one by one, one bit each
    std::vector<Tally> tally;                      // [L][T][LANES]; their kinds of transfer

    std::vector<Lanes> visits;                     // [T]; iterations of the innermost loop so far that moves each lane's
                                                   // tile, and of all loops further out
    // What walks of windows go through: temporal loops, from the outermost inwards. Rows without a loop in any lane are
    // left out, and levels that no walk has come to yet.
    std::vector<Row> rows;
    int row_count = 0, rows_from = 0;              // rows; the innermost level that they hold
    std::size_t ranks = 0;                         // of all windowed data spaces
    std::vector<Lanes> steps;                      // [row][ranks of a windowed data space after the other]; move of each
    std::vector<Lanes> scratch;                    // [4][ranks]
    WindowWalk walk;
    Loops loops;
    FanOut fan_out;
    std::vector<Grid> grids;                       // [L][T]
    Grid connected;                                // see count_groups
    std::vector<double> last;                      // [R]

    explicit Traffic(const Layer& layer);
};

// Fills in `wanted`. `with_hops`: also the boundaries below which the data space is bypassed are counted in full; their
// size matters to hops alone, since bypassing rescales their words.
void count_demand(const Layer& layer, const MappingPack& pack, const Tiles& tiles, bool with_hops, Traffic& traffic);

// Lanes in which no fan-out has more than MOST_RECEIVERS, one bit each.
unsigned lanes_countable(const Layer& layer, const Tiles& tiles);

// Fills in the rest from `wanted`. Lanes outside `lanes` (one bit each) are left to the closed form.
void count_delivery(const Layer& layer, const MappingPack& pack, const Tiles& tiles, bool with_hops, unsigned lanes,
                    Traffic& traffic);

}  // namespace fadiff
