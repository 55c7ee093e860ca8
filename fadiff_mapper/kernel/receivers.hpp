// The receivers of one fan-out: groups that demand the same words, and neighbours that hold them already.
//
// Receivers are numbered along X first, X loops from the innermost, then along Y, as in the mapping. They fill the rows
// of the hardware's grid (or of the mapped grid, if that is larger) one after the other: Timeloop packs them along the
// row even if the mapping puts them in a column.

#pragma once

#include <algorithm>
#include <vector>

#include "tiles.hpp"

namespace fadiff {

// Most receivers of one fan-out that are counted one by one, a limit on memory far above real machines. A mapping with more
// is refused (model/legality.py, MOST_RECEIVERS).
constexpr double MOST_RECEIVERS = 0x1p20;

// A kind of transfer, with its words: `scatter` groups of `multicast` receivers, every group with its own words.
struct Kind {
    double multicast, scatter, words, hop_words;
};

// Kinds in ascending order of multicast, then scatter, in which Timeloop adds them up.
using Tally = std::vector<Kind>;

// The kind with this multicast and scatter; if missing, it is inserted in order, without words.
Kind& kind_of(Tally& tally, double multicast, double scatter);

// The E receivers of one fan-out and one data space. Neighbours of a mapping in a search mostly share it.
struct Grid {
    int count = 1, width = 1, height = 1, groups = 0;  // groups: 0 before they are found
    // Position of the words of each receiver, relative to the first receiver's, in R' coordinates: [E][R'].
    //
    // Mostly R' is 1: the ranks are combined into one number, in which a step of one rank is larger than any move in the
    // ranks before, so that equal numbers mean equal positions in every rank. If such numbers could exceed 2^53 and lose
    // digits, R' is the number of ranks.
    int coordinates = 1;
    std::vector<double> offset;
    std::vector<double> pitch;         // [R]; weight of each rank in the combined number; empty: ranks are separate
    std::vector<int> group;            // [E]; receivers that demand the same words have the same number
    std::vector<std::uint8_t> linked;  // [E]; the receiver takes its words from a neighbour
    std::vector<int> table, size;      // hash table of first members; members per group
    std::vector<double> placed;        // loops that made the offsets, in a row: axis, bound and step [R] of each
    std::vector<double> hops, hop_sum, step, wanted;
    std::vector<int> scatter, farthest, lowest, highest;
    std::vector<double> last;          // [R]; offset of the last receiver (with residuals, where fan-outs change)
    Tally kinds;                       // of a call, see list_kinds

    const double* at(int receiver) const { return offset.data() + std::size_t(receiver) * coordinates; }
};

// Offset of the last receiver from the first in each rank of a data space, [R].
void last_offset(const DataSpace& space, const FanOut& fan_out, std::vector<double>& offset);

// Fills in offsets, width and height of the grid of the receivers along the loops of some dimensions, unless the same loops made
// it. `last` [R]: the largest offset of the last receiver, and the farthest move, of all grids that are compared with this grid;
// null: ranks are separate.
void place_receivers(const Layer& layer, const DataSpace& space, const FanOut& fan_out, Dims dims, const double* last, Grid& grid);

// Fills in groups: receivers with equal offsets, or (without multicast) every receiver by itself.
void find_groups(Grid& grid, bool multicast);

// Calls `look(begin, end, on)` for ranges of receivers, from `begin` to before `end`, with a neighbour `on` places further, among
// `others` receivers: to the left or right in the row, above or below, without wrap-around.
template <typename Look>
inline void each_neighbour(const Grid& grid, int others, Look look) {
    const auto within = [&](int begin, int end, int on) {
        look(std::max(begin, -on), std::min({end, grid.count, others - on}), on);
    };
    within(0, grid.count, -grid.width);
    within(0, grid.count, grid.width);
    for (int first = 0; first < grid.count; first += grid.width) {
        within(first + 1, first + grid.width, -1);
        within(first, first + grid.width - 1, 1);
    }
}

// Marks receivers that find their words at a neighbour's position in the grid `before` of the previous call, after which the
// tile has moved by `move` [R]. Returns their number.
int find_linked(Grid& grid, const Grid& before, const double* move, int ranks);

// The number of groups with a member that takes no words from a neighbour; fills in `size`.
int groups_left(Grid& grid);

// Hops of a word to every group, as Timeloop counts them, into `hops` (halves possible): along X to the farthest
// member, and in each column with a member from the middle of the grid, (height - 1) / 2, to the outermost members
// above and below. Members that take their words from a neighbour are left out.
void count_hops(Grid& grid);

// Kinds of transfer of a word to the receivers that take no words from a neighbour, in order: groups by size, with the sum of
// their hops. Words stay 0.
void list_kinds(Grid& grid, bool with_hops, Tally& kinds);

// Groups, all of one size, of receivers that demand the same words: `scatter` groups of `multicast` receivers.
template <typename Number>
struct Groups {
    Number multicast, scatter;
};

// Receivers along loops that share no rank of a data space: every loop over a relevant dimension multiplies the groups, as its
// iterations demand distinct words, and every other loop multiplies their members. Without multicast every receiver is a group.
// `receivers`: the product of all these loops; `relevant()`: the product of the loops over relevant dimensions; of one mapping
// (double), or of eight (Lanes).
template <typename Number, typename Relevant>
Groups<Number> multiply_groups(bool multicast, Number receivers, Relevant relevant) {
    const Number groups = multicast ? relevant() : receivers;
    return {receivers / groups, groups};
}

// Kinds of transfer of a word to all receivers, without their positions: enough where no words travel between neighbours and
// no hops are counted. Words and hops stay 0. `last` as for `place_receivers`.
//
// Sizes of groups along loops that share no rank multiply; receivers along loops that share ranks are placed in `connected`,
// and compared.
void count_groups(const Layer& layer, const DataSpace& space, const FanOut& fan_out, bool multicast, const double* last,
                  Grid& connected, Tally& kinds);

// Adds a call that delivers `words` to every receiver that takes no words from a neighbour.
void add_call(Grid& grid, double words, bool with_hops, Tally& tally);

}  // namespace fadiff
