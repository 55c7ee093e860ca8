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
// `compare_moves` is this rule and `overlap` the words that were there; two walks, and the bounds of proofs, call them.
// `SlidingTile` asks once a loop: for eight mappings at once, of which the demand is wanted (`traffic.cpp`), and for one, of which
// deliveries are told apart (`walk_held`), as its receivers are counted one by one. `ResidualWalk` asks call by call, as tiles of
// last runs are smaller. `access_counts.demand` is the closed form where at most one loop moves a window, and
// `smooth.window_steps` the differentiable one where several do. tests/model/test_sliding_window_walk.py holds the first to the
// walk, and the walk to Timeloop's rule executed call by call; tests/model/test_closed_forms.py the second.

#pragma once

#include <vector>

#include "tiles.hpp"

namespace fadiff {

// Move of a tile in one rank when a loop steps: one step ahead, less one step of every loop inside, which Timeloop leaves at
// iteration 1. `inside`: steps of those loops together, to which this one is added.
template <typename Number>
Number move_ahead(Number step, Number& inside) {
    const Number move = step - inside;
    inside += step;
    return move;
}

// How a call moves a tile. Without a move nothing is delivered; if the tile slides, its new words; else the whole tile.
template <typename Truth>
struct Motion {
    Truth moves, slides;
};

// Compares the move m [R] of a call with the step v [R] that the tile remembers. `moved`: whether v is set; `present`: whether
// there is such a call.
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

// Words of a tile that were there before. `common`: points along a rank in both places of the tile, below 0 where they lie apart.
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
    const Number* extent;   // [R]; of the tile
    Number words;           // of the tile
    Number* first;          // [R]; move of the innermost loop that moves the tile, 0 before it has come
    Truth moved;            // whether it has come
    Number fresh;           // words that a step of it brings

    // Words that a step of the next loop brings, which moves the tile by `move` [R]; 0 in mappings that have no such loop.
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
    std::vector<double> moves;      // [S][R]; move when the loop advances and the loops inside, which stood at
                                    // iteration 1, start again
    std::vector<double> repeated;   // [S]; words of a loop's steps that repeat the delivery before: only for these a
                                    // receiver may find its words at a neighbour
    std::vector<double> inside, first;  // [R]; scratch
    double words = 0;               // words of the tile

    const double* move(int loop) const { return moves.data() + std::size_t(loop) * ranks; }
};

// Fills in extent, words and moves of the tile below a level for the loops of that level and further out.
void start_walk(const Layer& layer, const DataSpace& space, const Loops& loops, const FanOut& fan_out, WindowWalk& walk);

// Words of the calls that repeat no delivery, of a walk through `count` loops of `bound` iterations; fills in
// `repeated`. With the sum of `repeated` the demand of a receiver.
double walk_held(const double* bound, int count, WindowWalk& walk);

// The same for receivers that hold nothing: every iteration asks for the whole tile. All deliveries have the same
// length, so that every call but the first repeats the one before.
double walk_unheld(const double* bound, int count, WindowWalk& walk);

}  // namespace fadiff
