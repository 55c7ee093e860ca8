#include "window_walk.hpp"

#include <algorithm>

namespace fadiff {

void start_walk(const Layer& layer, const DataSpace& space, const Loops& loops, const FanOut& fan_out, WindowWalk& walk) {
    const int ranks = int(space.ranks.size()), dims = layer.dims, first = loops.start[fan_out.level];
    walk.ranks = ranks;
    walk.extent.resize(ranks);
    walk.inside.assign(ranks, 0.0);
    walk.moves.resize(std::size_t(loops.count - first + 1) * ranks);
    walk.repeated.resize(loops.count - first + 1);
    walk.words = 1;
    for (int r = 0; r < ranks; ++r) {
        walk.extent[r] = extent(space.ranks[r], fan_out.below.data());
        walk.words *= walk.extent[r];
    }
    for (int s = first; s < loops.count; ++s)
        for (int r = 0; r < ranks; ++r)
            walk.moves[std::size_t(s - first) * ranks + r] = move_ahead(
                space.move[std::size_t(r) * dims + loops.dim[s]] * loops.points[s], walk.inside[r]);
}

double walk_unheld(const double* bound, int count, WindowWalk& walk) {
    double outside = 1;
    for (int s = count - 1; s >= 0; --s) {
        walk.repeated[s] = walk.words * (bound[s] - 1) * outside;
        outside *= bound[s];
    }
    return walk.words;
}

// A delivery is a repeat if it has as many words as the previous one; only then may receivers take words from a
// neighbour. Let f be the words of a step of the innermost loop that moves the tile:
//
//     step of                    previous delivery            repeats
//     that innermost loop        any                          none in a run that a delivery of another length begins:
//                                                             the first tile (unless f is a whole tile), or a step
//                                                             further out that is no repeat; all in other runs
//     a loop further out         f words: a step of the       all steps if they bring f words as well, that is if
//                                innermost loop               the window slides on or tiles never overlap; else none
//
// Iteration 1 stands for all steps of a run of that innermost loop, so the delivery before the run decides for all of
// them. Where a loop inside that innermost one moves nothing, its calls deliver nothing in between, and nothing repeats.
double walk_held(const double* bound, int count, WindowWalk& walk) {
    walk.first.assign(walk.ranks, 0.0);
    SlidingTile<double, bool> tile{walk.ranks, walk.extent.data(), walk.words, walk.first.data(), false, walk.words};
    int first = count;  // innermost loop that moves the tile
    for (int s = 0; s < count; ++s) {
        walk.repeated[s] = tile.brought(walk.move(s), true);
        if (tile.moved) first = std::min(first, s);
    }
    double plain = walk.words, outside = 1, broken = tile.fresh == walk.words ? 0 : 1;  // broken: runs begun by another length
    for (int s = count - 1; s >= 0; --s) {
        const double words = walk.repeated[s], times = (bound[s] - 1) * outside;
        outside *= bound[s];
        double repeats = words == tile.fresh ? times : 0;
        if (s == first) repeats -= broken * (bound[s] - 1);
        broken += times - repeats;
        walk.repeated[s] = first == 0 ? words * repeats : 0;
        plain += words * times - walk.repeated[s];
    }
    return plain;
}

}  // namespace fadiff
