// Sliding windows in time, exactly as Timeloop walks them.
//
// Timeloop runs iterations 0 and 1 of every temporal loop and lets iteration 1 stand for all others. Each tile
// remembers its position and its last step v. A call that moves the tile by m delivers
//
//     nothing              where m = 0
//     the new words only   where v is unset (then v = m) or m = v
//     the whole tile       where m differs from v (then v is unset)
//
// The calls of loop l form the sequence S(l) = S(l - 1), then n - 1 times: step of loop l, S(l - 1). So a step of a
// loop further out than the innermost one that moves the tile always follows a step of that innermost loop, whose move
// v remembers; comparing the two moves is enough.
//
// The reference for `traffic.cpp`, which repeats the walk in lanes; used itself where receivers are counted one by one.
// `access_counts.demand` is the closed form where at most one loop moves a window, and `smooth.window_steps` the
// differentiable one where several do. tests/model/test_sliding_window_walk.py holds both to the walk, and the walk to
// Timeloop's rule executed call by call.

#pragma once

#include <vector>

#include "tiles.hpp"

namespace fadiff {

// The walk of one tile through the S loops outside it, innermost first.
struct WindowWalk {
    int ranks = 0;
    std::vector<double> extent;     // [R]; extent of the tile
    std::vector<double> moves;      // [S][R]; move when the loop advances and the loops inside, which stood at
                                    // iteration 1, start again
    std::vector<double> repeated;   // [S]; words of a loop's steps that repeat the delivery before: only for these a
                                    // receiver may find its words at a neighbour
    std::vector<double> travelled;  // [R]; scratch
    double words = 0;               // words of the tile

    const double* move(int loop) const { return moves.data() + std::size_t(loop) * ranks; }
};

// Words of a tile that were not there before a move [R]: the tile, of extents [R], less its overlap.
double new_words(const std::vector<double>& extents, double words, const double* move);

// Fills in extent, words and moves of the tile below a level for the loops of that level and further out.
void start_walk(const Layer& layer, const DataSpace& space, const Loops& loops, const FanOut& fan_out, WindowWalk& walk);

// Words of the calls that repeat no delivery, of a walk through `count` loops of `bound` iterations; fills in
// `repeated`. With the sum of `repeated` the demand of a receiver.
double walk_held(const double* bound, int count, WindowWalk& walk);

// The same for receivers that hold nothing: every iteration asks for the whole tile. All deliveries have the same
// length, so that every call but the first repeats the one before.
double walk_unheld(const double* bound, int count, WindowWalk& walk);

}  // namespace fadiff
