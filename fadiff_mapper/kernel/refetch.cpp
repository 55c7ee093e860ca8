// Refetches of a tile's operands, where neither they nor all its sums fit on the chip at once.
//
// A tile that is larger than the home level streams its operands through it, some of them several times. A layer of
// two operands X and W multiplies `a` rows of outputs that X moves with `b` columns that W moves, as a matrix product
// does. Three schedules are compared, known as input, weight and output stationary: a block of X stays while W streams
// by, a block of W stays while X streams by, or a block of outputs is summed up while both stream by. The one with the
// fewest words moved counts. Operands stream by in slices along the reduction dimensions, as thin as the lanes allow. A
// sliding window is there whole, or it comes again for the points of all its dimensions but one. What passes by the home
// needs no room there.

#include "fused_segment.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

namespace fadiff {

static const double NEVER = std::numeric_limits<double>::infinity();

static const int WIDTHS = 9;  // the columns of the block of outputs: all, a half, a quarter, down to 1/256

namespace {

// Either of the two operands.
struct Side {
    double size = 0;         // words of its tile, of one group where both operands and the output share dimensions
    bool passing = false;    // fetched in every step
    bool lying = false;      // whether it passes through the home, where it needs room
    double rows = 1;         // outputs that it alone moves
    double fewest = 1;       // rows that are needed at once: those that work side by side
    double slice = 1;        // part of its reduction dimensions, apart from windows, that is needed at once
    Dims windows = 0;        // reduction dimensions along which it slides

    // Words of so many rows in one reduction step.
    double words(double some) const { return lying ? size * some / rows * slice : 0; }

    // How often it is streamed where a reduction step has the windows `whole` at once. Of the window loops outside the
    // step the longest only slides it; each other one restarts it, so that their extents multiply.
    double again(Dims whole, const double* tile) const {
        double times = 1, longest = 1;
        for (const int dim : members(windows & ~whole)) {
            times *= std::min(tile[dim], longest);
            longest = std::max(tile[dim], longest);
        }
        return times;
    }
};

struct Often {
    double first, second;  // how often each operand comes in
};

}  // namespace

static Side side_of(const FusedLayer& layer, int tensor, int other, const double* tile, Dims whole, double groups,
                    bool passing, bool lying) {
    const Dims output = layer.spaces[layer.output].relevant;
    Side side;
    side.size = volume(layer.spaces[tensor], tile) / groups;
    side.passing = passing;
    side.lying = lying;
    double unit = 1;
    for (int dim = 0; dim < layer.dims(); ++dim) {
        if (!layer.moves(tensor, dim)) continue;
        if (output >> dim & 1) {
            if (layer.moves(other, dim)) continue;
            side.rows *= tile[dim];
            unit *= std::min(layer.lanes()[dim], layer.bounds[dim]);
        } else if (!(whole >> dim & 1)) {
            if (layer.rank_of(tensor, dim).terms.size() > 1) side.windows |= Dims(1) << dim;
            else side.slice *= std::min(layer.lanes()[dim], tile[dim]) / tile[dim];
        }
    }
    side.fewest = std::min(unit, side.rows);
    return side;
}

// A block of the one stays while the other streams by, in rows with all reduction dimensions whole: loops over these
// would move the block. The times of the one that stays first.
static Often block_stays(const Side& stays, const Side& streams, double room) {
    const double left = room - (streams.lying ? streams.size * streams.fewest / streams.rows : 0);
    const double block = stays.passing ? std::floor(stays.rows * left / stays.size) : left >= 0 ? stays.rows : 0;
    if (!(block >= stays.fewest)) return {NEVER, NEVER};
    // No std::clamp: it must not be asked where the rows are fewer than 1, as in a tile that lies in padding for the most.
    return {1, std::ceil(stays.rows / std::min(std::max(block, 1.0), stays.rows))};
}

// A block of outputs of some width is summed up while both stream by; it is as high as room and sums allow.
static Often outputs_stay(const Side& first, const Side& second, double room, double sums_room, Dims whole,
                          double part, const double* tile) {
    const double width = std::max(second.rows / part, second.fewest);
    const double left = room - second.words(width);
    const double most = first.lying ? std::floor(left / first.words(1)) : left >= 0 ? first.rows : 0;
    const double height = std::min({std::floor(sums_room / width), first.rows, most});
    if (!(height >= first.fewest)) return {NEVER, NEVER};
    return {std::ceil(second.rows / width) * first.again(whole, tile),
            std::ceil(first.rows / std::max(height, 1.0)) * second.again(whole, tile)};
}

void refetched(const FusedLayer& layer, const double* tile, Spaces passing, Spaces staying, Spaces by, double room,
               double sums_room, Refetch& found) {
    const int tensors = int(layer.spaces.size());
    found.times.assign(tensors, 1);
    Dims whole = 0;
    int operands[2], count = 0;
    for (int t = 0; t < tensors; ++t) {
        if (layer.spaces[t].written) continue;
        if (staying >> t & 1) whole |= layer.spaces[t].relevant;
        if (count < 2) operands[count] = t;
        ++count;
    }
    double least[64], pieces = 0;
    for (int dim = 0; dim < layer.dims(); ++dim) least[dim] = whole >> dim & 1 ? tile[dim] : 1;
    for (int t = 0; t < tensors; ++t)
        if ((passing & ~by) >> t & 1) pieces += volume(layer.spaces[t], least);
    found.fits = pieces <= room && room >= 0;
    if (count != 2 || !passing || !found.fits) return;
    const auto [left, right] = operands;
    const Dims both = layer.spaces[left].relevant & layer.spaces[right].relevant & layer.spaces[layer.output].relevant;
    double groups = 1;
    for (int dim = 0; dim < layer.dims(); ++dim)
        if (both >> dim & 1) groups *= tile[dim];
    const Side first = side_of(layer, left, right, tile, whole, groups, passing >> left & 1, (passing & ~by) >> left & 1);
    const Side second = side_of(layer, right, left, tile, whole, groups, passing >> right & 1,
                               (passing & ~by) >> right & 1);
    double fewest = NEVER;
    Often best{1, 1};
    const auto try_one = [&](const Often& often) {
        if (often.first == NEVER) return;
        const double moved = (first.passing ? first.size * often.first : 0) + (second.passing ? second.size * often.second : 0);
        if (moved < fewest) fewest = moved, best = often;
    };
    try_one(block_stays(first, second, room));
    const Often other = block_stays(second, first, room);
    try_one({other.second, other.first});
    const Dims windows = first.windows | second.windows;
    for (Dims inside = 0;; inside = (inside - windows) & windows) {  // every subset of the windows
        double part = 1;
        for (int k = 0; k < WIDTHS; ++k, part *= 2)
            try_one(outputs_stay(first, second, room, sums_room, inside, part, tile));
        if (inside == windows) break;
    }
    found.fits = fewest < NEVER;
    if (passing >> left & 1) found.times[left] = best.first;
    if (passing >> right & 1) found.times[right] = best.second;
}

}  // namespace fadiff
