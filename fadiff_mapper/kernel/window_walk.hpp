// Sliding windows in time, exactly as Timeloop walks them.
//
// Timeloop runs iterations 0 and 1 of every temporal loop; iteration 1 stands for all later iterations. Each tile
// remembers its position and its last step v. A call that moves the tile by m delivers
//
//     nothing              where m = 0
//     the new words only   where v is unset (then v = m) or m = v
//     the whole tile       where m differs from v (then v is unset)
//
// The calls of loop l form the sequence S(l) = S(l - 1), then n - 1 times: step of loop l, S(l - 1). Let i be the innermost
// loop that moves the tile. A step of a loop further out always follows a step of loop i, whose move v remembers, so comparing
// the two moves is enough.
//
// `compare_moves` is this rule, and `overlap` counts the words that stay; two walks, and the bounds of proofs, call them.
// `SlidingTile` calls them once a loop: for the demand of eight mappings at once (`traffic.cpp`), and for the deliveries of one
// mapping whose receivers are counted one by one (`walk_held`). `ResidualWalk` calls them call by call, as tiles of last runs are
// smaller. `access_counts.demand` is the closed form where at most one loop moves a window, `smooth.window_steps` the
// differentiable form where several loops do. tests/model/test_sliding_window_walk.py compares the first with the walk, and the
// walk with Timeloop's rule executed call by call; tests/model/test_closed_forms.py compares the second.

#pragma once

#include <vector>

#include "tiles.hpp"

namespace fadiff {

// Move of a tile in one rank when a loop steps: one step ahead, minus one step of every loop inside, which Timeloop leaves at
// iteration 1. `inside`: the sum of the steps of the loops inside, to which this step is added.
template <typename Number>
Number move_ahead(Number step, Number& inside) {
    const Number move = step - inside;
    inside += step;
    return move;
}

// The motion of a tile in a call. Without a move no word is delivered; if the tile slides, its new words; else the whole tile.
template <typename Truth>
struct Motion {
    Truth moves, slides;
};

// Compares the move m [R] of a call with the step v [R] that the tile remembers. `moved`: whether v is set; `present`: whether
// the call exists.
template <typename Number, typename Truth>
Motion<Truth> compare_moves(int ranks, const Number* m, const Number* v, Truth moved, Truth present) {
    Truth still = present, repeats = present;
    for (int r = 0; r < ranks; ++r) {
        still = still & (m[r] == Number(0));
        repeats = repeats & (m[r] == v[r]);
    }
    const Truth moves = present & !still, slides = moves & (repeats | !moved);
    return {moves, slides};
}

// Words that stay in a tile. `common(rank)`: points along a rank that both positions of the tile share, below 0 if disjoint.
template <typename Number, typename Common>
Number overlap(int ranks, Common common) {
    Number words = 1.0;
    for (int r = 0; r < ranks; ++r) words *= larger(common(r), Number(0.0));
    return words;
}

// A tile on its walk through the loops outside it, from the innermost outwards: of one mapping (double, bool), or of eight
// (Lanes, Mask).
template <typename Number, typename Truth>
struct SlidingTile {
    int ranks;
    const Number* extent;   // [R]; extents of the tile
    Number words;           // words of the tile
    Number* first;          // [R]; move of the innermost loop that moves the tile, 0 before the walk reaches this loop
    Truth moved;            // whether the walk has reached it
    Number fresh;           // new words of a step of this loop

    // Words that a step of the next loop delivers, which moves the tile by `move` [R]; 0 in mappings without such a loop.
    Number brought(const Number* move, Truth present) {
        const auto [moves, slides] = compare_moves(ranks, move, first, moved, present);
        const Truth begins = moves & !moved;
        if (any(begins)) {
            const Number anew = words - overlap<Number>(ranks, [&](int r) { return extent[r] - absolute(move[r]); });
            for (int r = 0; r < ranks; ++r) first[r] = select(begins, move[r], first[r]);
            fresh = select(begins, anew, fresh);
            moved = moved | begins;
        }
        return select(slides, fresh, where(moves, words));
    }
};

// The walk of one tile through the S loops outside it, innermost first.
struct WindowWalk {
    int ranks = 0;
    std::vector<double> extent;     // [R]; extent of the tile
    std::vector<double> moves;      // [S][R]; move when the loop advances, and the loops inside return from iteration 1
                                    // to 0
    std::vector<double> repeated;   // [S]; words of a loop's steps that repeat the previous delivery: only then can a
                                    // receiver find its words at a neighbour
    std::vector<double> inside, first;  // [R]; scratch
    double words = 0;               // words of the tile

    const double* move(int loop) const { return moves.data() + std::size_t(loop) * ranks; }
};

// Fills in extent, words and moves of the tile below a level for the loops of that level and further out.
void start_walk(const Layer& layer, const DataSpace& space, const Loops& loops, const FanOut& fan_out, WindowWalk& walk);

// Walks through `count` loops of `bound` iterations. Returns the words of the calls that repeat no delivery, and fills in
// `repeated`; the demand of a receiver is their sum.
double walk_held(const double* bound, int count, WindowWalk& walk);

// As `walk_held`, for receivers that hold no words: every iteration demands the whole tile. All deliveries are equally long,
// so every call but the first repeats the previous one.
double walk_unheld(const double* bound, int count, WindowWalk& walk);

}  // namespace fadiff
