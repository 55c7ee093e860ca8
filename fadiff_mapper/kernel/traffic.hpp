// Words that cross every boundary over the whole run, before levels that bypass a data space hand them outwards.
//
// Eight mappings at once, by closed forms (model/access_counts.py) and walks of windows; receivers of windows one by one.

#pragma once

#include "receivers.hpp"
#include "window_walk.hpp"

namespace fadiff {

// Temporal loops at one place of each lane's nest.
struct Row {
    Lanes bound, further;  // iterations of the loop; iterations of all loops further out together
    Mask present;          // whether the loop runs more than once
};

// Traffic of eight mappings; scratch that every pack fills anew. Cells are [L][T].
struct Traffic {
    std::vector<Lanes> wanted;                     // words that one receiver asks for
    std::vector<Lanes> words, multicast, scatter;  // the kind of transfer of the closed form
    std::vector<Lanes> links;                      // words that receivers take from a neighbouring receiver instead
    std::vector<std::uint8_t> counted;             // lanes whose receivers were counted one by one, one bit each
    std::vector<Tally> tally;                      // [L][T][LANES]; their kinds of transfer

    std::vector<Lanes> visits;                     // [T]; iterations of the innermost loop, of the loops taken so far, that
                                                   // moves each lane's tile, and of all loops further out
    // The temporal loops that walks of windows go through, from the outermost inwards, without rows that have no loop in any
    // lane, and without levels that no walk has reached yet.
    std::vector<Row> rows;
    int row_count = 0, rows_from = 0;              // number of rows; their innermost level
    std::size_t ranks = 0;                         // ranks of all windowed data spaces
    std::vector<Lanes> steps;                      // [row][ranks of all windowed data spaces]; move of each rank
    std::vector<Lanes> scratch;                    // [4][ranks]
    WindowWalk walk;
    Loops loops;
    FanOut fan_out;
    std::vector<Grid> grids;                       // [L][T]
    Grid connected;                                // see count_groups
    std::vector<double> last;                      // [R]

    explicit Traffic(const Layer& layer);
};

// Fills in `wanted`. `with_hops`: boundaries below which the data space is bypassed are counted in full, too; their words only
// matter for hops, since bypassing rescales them.
void count_demand(const Layer& layer, const MappingPack& pack, const Tiles& tiles, bool with_hops, Traffic& traffic);

// Lanes in which no fan-out has more than MOST_RECEIVERS, one bit each.
unsigned lanes_countable(const Layer& layer, const Tiles& tiles);

// Fills in all other fields from `wanted`. Lanes outside `lanes` (one bit each) only get the closed form.
void count_delivery(const Layer& layer, const MappingPack& pack, const Tiles& tiles, bool with_hops, unsigned lanes,
                    Traffic& traffic);

}  // namespace fadiff
