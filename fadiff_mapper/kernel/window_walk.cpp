#include "window_walk.hpp"

#include <algorithm>
#include <cmath>

namespace fadiff {

void start_walk(const Layer& layer, const DataSpace& space, const Loops& loops, const FanOut& fan_out, WindowWalk& walk) {
    const int ranks = int(space.ranks.size()), dims = layer.dims, first = loops.start[fan_out.level];
    walk.ranks = ranks;
    walk.extent.resize(ranks);
    walk.travelled.assign(ranks, 0.0);
    walk.moves.resize(std::size_t(loops.count - first + 1) * ranks);
    walk.repeated.resize(loops.count - first + 1);
    walk.words = 1;
    for (int r = 0; r < ranks; ++r) {
        walk.extent[r] = extent(space.ranks[r], fan_out.below.data());
        walk.words *= walk.extent[r];
    }
    for (int s = first; s < loops.count; ++s) {
        for (int r = 0; r < ranks; ++r) {
            const double step = space.move[std::size_t(r) * dims + loops.dim[s]] * loops.points[s];
            // one step ahead, less one step of every loop inside: Timeloop leaves those at iteration 1
            walk.moves[std::size_t(s - first) * ranks + r] = step - walk.travelled[r];
            walk.travelled[r] += step;
        }
    }
}

double new_words(const std::vector<double>& extents, double words, const double* move) {
    double overlap = 1;
    for (std::size_t r = 0; r < extents.size(); ++r) overlap *= std::max(extents[r] - std::abs(move[r]), 0.0);
    return words - overlap;
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
    const int ranks = walk.ranks;
    auto moves = [&](int s) { return std::any_of(walk.move(s), walk.move(s) + ranks, [](double m) { return m != 0; }); };
    int first = 0;  // innermost loop that moves the tile
    while (first < count && !moves(first)) ++first;
    const double fresh = first < count ? new_words(walk.extent, walk.words, walk.move(first)) : walk.words;
    double plain = walk.words, outside = 1, broken = fresh == walk.words ? 0 : 1;  // broken: runs begun by another length
    for (int s = count - 1; s >= 0; --s) {
        const double times = (bound[s] - 1) * outside;
        outside *= bound[s];
        const bool like_innermost = s >= first && std::equal(walk.move(s), walk.move(s) + ranks, walk.move(first));
        const double words = like_innermost ? fresh : s >= first && moves(s) ? walk.words : 0;
        double repeats = words == fresh ? times : 0;
        if (s == first) repeats -= broken * (bound[s] - 1);
        broken += times - repeats;
        walk.repeated[s] = first == 0 ? words * repeats : 0;
        plain += words * times - walk.repeated[s];
    }
    return plain;
}

}  // namespace fadiff
