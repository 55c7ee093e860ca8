// The receivers of one fan-out of a mapping with residual factors, one by one.
//
// The last run of a spatial loop may reach fewer receivers than the others, and a delivery may be of another shape than
// the one before. So nothing is known of a call but the loops that run in it, and neighbours compare whole deliveries.

#pragma once

#include "receivers.hpp"

namespace fadiff {

using Position = std::int64_t;  // a coordinate of a data space

// A set of words as disjoint boxes: [box][R] lower corners and, one further, upper corners.
struct Boxes {
    int ranks = 0, count = 0;
    std::vector<Position> low, high;

    void clear(int of_ranks) { ranks = of_ranks, count = 0, low.clear(), high.clear(); }
    void add(const Position* lower, const Position* upper) {
        low.insert(low.end(), lower, lower + ranks), high.insert(high.end(), upper, upper + ranks), ++count;
    }
    double words() const;
};

// A box without another one, cut rank by rank as Timeloop cuts it; `into` is filled anew, `corners` are scratch.
void subtract(const Position* low, const Position* high, const Position* without_low, const Position* without_high, int ranks,
              std::vector<Position>& corners, Boxes& into);

// Whether two sets are equal but for a move, and if so the move from `before` to `now`, [R].
bool same_shape(const Boxes& before, const Boxes& now, std::vector<Position>& move);

// One spatial loop of a fan-out, as it runs in a call.
struct SpatialLoop {
    int dim, bound;
    Position points;  // points of its dimension from one iteration to the next
    bool on_y;
};

// What the receivers of one data space share in calls that run the same iterations of the spatial loops.
struct Sharing {
    std::vector<SpatialLoop> loops;
    std::vector<Position> step;    // [loop][R]
    int count = 1, width = 1, height = 1, ranks = 0;
    std::vector<Position> offset;  // [E][R]; filled in by `place`
    std::vector<Position> last;    // [R]; offset of the last receiver
    Tally kinds;                   // groups with the hops of all of them together; words stay 0

    const Position* at(int receiver) const { return offset.data() + std::size_t(receiver) * ranks; }
};

// Loops run from the innermost outwards; `width`, `height`: the hardware's grid, or the mapped one where that is larger.
Sharing sharing_of(const Layer& layer, const DataSpace& space, const std::vector<SpatialLoop>& loops, int width, int height);

// Fills in the offsets of all receivers, if nobody did so before.
void place(Sharing& sharing);

// Kinds of transfer to the placed receivers that are not `linked` (all where it is empty). Without multicast every
// receiver is sent its own copy.
Tally kinds_of(const Sharing& sharing, const std::vector<std::uint8_t>& linked, bool multicast, bool with_hops);

// The same for all receivers, without their places and hops.
Tally kinds_without_hops(const Layer& layer, const DataSpace& space, const std::vector<SpatialLoop>& loops, bool multicast);

// Marks the receivers whose words, moved by `move` since the call before, a neighbour held then. Returns how many.
int find_neighbours(const Sharing& before, const Sharing& now, const std::vector<Position>& move,
                    std::vector<std::uint8_t>& linked);

}  // namespace fadiff
