// Refetches of a tile's operands, where neither they nor all its sums fit on the chip at once.
//
// A tile that is larger than the home level streams its operands through it, some of them several times. A layer of
// two operands X and W multiplies `a` rows of outputs that X moves with `b` columns that W moves, as a matrix product
// does. Three schedules are compared, known as input, weight and output stationary: a block of X stays while W streams
// by, a block of W stays while X streams by, or a block of outputs is summed up while both stream by. The one with the
// fewest words moved counts. Operands stream by in slices along the reduction dimensions, as thin as the lanes allow. A
// sliding window is there whole, or it comes again for the points of all its dimensions but one.

#pragma once

#include "fused_segment.hpp"

namespace fadiff {

using Spaces = std::uint32_t;  // a set of data spaces, one bit each

struct Refetch {
    std::vector<double> times;  // [T]; how often each passing operand comes in
    bool fits = false;          // whether any schedule fits
};

// `tile`: extents, [D]; `passing`: operands fetched in every step; `staying`: operands that are there already, along
// whose dimensions the others come in whole; `room`: words of the home for the passing ones; `sums_room`: words of
// output that can be summed up at once.
void refetched(const FusedLayer& layer, const double* tile, Spaces passing, Spaces staying, double room,
               double sums_room, Refetch& found);

}  // namespace fadiff
