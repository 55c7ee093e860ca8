#include "traffic.hpp"

#include <algorithm>
#include <cmath>

namespace fadiff {

// Words over the whole run that need not be sent because the tile of the step before held them: of the n steps of the
// loop that moves the tile, n - 1 find the overlap in place, in each of the visits / n runs of the loop.
static double held_words(const Layer& layer, const DataSpace& space, const Loops& loops, int level, int loop) {
    if (loop == loops.count) return 0;
    const int d = loops.dim[loop];
    const double points = loops.across[std::size_t(loops.level[loop]) * layer.dims + d], visits = loops.outside[loop];
    const double* below = &loops.below[std::size_t(level) * layer.dims];
    double overlap = 1;
    for (std::size_t r = 0; r < space.ranks.size(); ++r) {
        double left = -space.ranks[r].surplus - space.move[r * layer.dims + d] * points;
        for (const Rank::Term& term : space.ranks[r].terms) left += term.coefficient * below[term.dim];
        if (left <= 0) return 0;
        overlap *= left;
    }
    return overlap * (visits - visits / loops.bound[loop]);
}

void count_demand(const Layer& layer, const Mapping& mapping, const Loops& loops, bool with_hops, Traffic& traffic) {
    const int tensors = layer.tensors;
    for (int t = 0; t < tensors; ++t) {
        const DataSpace& space = layer.spaces[t];
        traffic.wanted[t] = loops.outside[0];  // the arithmetic asks for one word per cycle
        int first = loops.count;               // the innermost loop outside the boundary that moves the data space
        for (int level = layer.levels - 1; level > 0; --level) {
            const int end = level + 1 < layer.levels ? loops.start[level + 1] : loops.count;
            for (int s = end - 1; s >= loops.start[level]; --s)
                if (space.relevant >> loops.dim[s] & 1) first = s;
            const std::size_t cell = std::size_t(level) * tensors + t;
            const double words = loops.below_size[cell];
            double& wanted = traffic.wanted[cell];
            if (!layer.held[cell]) {
                wanted = words * loops.outside[loops.start[level]];
                continue;
            }
            wanted = words * loops.outside[first];
            if (!space.windowed || !(with_hops || mapping.keep[cell - tensors])) continue;
            if (!several_move_one_rank(space, loops, level)) {
                wanted -= held_words(layer, space, loops, level, first);
                continue;
            }
            start_walk(layer, space, loops, level, traffic.walk);
            const int start = loops.start[level], count = loops.count - start;
            wanted = walk_held(&loops.bound[start], count, traffic.walk);
            for (int s = 0; s < count; ++s) wanted += traffic.walk.repeated[s];
        }
    }
}

// The receivers of one cell, one by one: calls whose words a neighbour holds go over links where that saves words,
// that is where every member of some group finds its words there; all other calls are added up and sent as if in one.
static void count_receivers(const Layer& layer, const Mapping& mapping, const Loops& loops, int level, int t,
                            bool with_hops, Traffic& traffic) {
    const DataSpace& space = layer.spaces[t];
    const std::size_t cell = std::size_t(level) * layer.tensors + t;
    WindowWalk& walk = traffic.walk;
    Tally& tally = traffic.tally[cell];
    start_walk(layer, space, loops, level, walk);
    const int count = loops.count - loops.start[level];
    const double* bound = loops.bound.data() + loops.start[level];
    double unlinked = layer.held[cell] ? walk_held(bound, count, walk) : walk_unheld(bound, count, walk);
    traffic.last.resize(space.ranks.size());
    last_offset(layer, space, mapping, loops, level, traffic.last.data());
    // A move beyond the last receiver's words is beyond all words.
    auto may_link = [&](int s) {
        if (!(walk.repeated[s] > 0)) return false;
        for (int r = 0; r < walk.ranks; ++r)
            if (std::abs(walk.move(s)[r]) > traffic.last[r]) return false;
        return true;
    };
    bool placed = with_hops;
    for (int s = 0; s < count && !placed; ++s) placed = may_link(s);
    tally.clear();
    if (!placed) {
        for (int s = 0; s < count; ++s) unlinked += walk.repeated[s];
        if (!layer.multicast[cell]) {
            tally.push_back({1, loops.fan[level], loops.fan[level] * unlinked, 0});
            return;
        }
        count_groups(layer, space, mapping, loops, level, traffic.groups);
        for (const auto& entry : traffic.groups.entries)
            tally.push_back({entry.size, entry.groups, entry.groups * unlinked, 0});
        return;
    }
    Grid& grid = traffic.grid;
    place_receivers(layer, space, mapping, loops, level, grid);
    find_groups(grid, layer.multicast[cell]);
    for (int s = 0; s < count; ++s) {
        const double words = walk.repeated[s];
        const int linked = words > 0 ? find_linked(grid, walk.move(s)) : 0;
        if (linked > 0 && groups_left(grid) < grid.groups) {
            add_call(grid, words, with_hops, tally);
            traffic.links[cell] += words * linked;
        } else {
            unlinked += words;
        }
    }
    std::fill(grid.linked.begin(), grid.linked.end(), std::uint8_t(0));
    add_call(grid, unlinked, with_hops, tally);
}

void count_delivery(const Layer& layer, const Mapping& mapping, const Loops& loops, bool with_hops, Traffic& traffic) {
    for (int level = 0; level < layer.levels; ++level) {
        const Dims fanned = loops.fanned[level];
        const double fan = loops.fan[level];
        for (int t = 0; t < layer.tensors; ++t) {
            const DataSpace& space = layer.spaces[t];
            const std::size_t cell = std::size_t(level) * layer.tensors + t;
            traffic.links[cell] = 0;
            // Receivers that hold nothing, such as the arithmetic, may take over the words of the call before.
            if (fanned & (with_hops || !layer.held[cell] ? ~Dims(0) : space.shared)) {
                count_receivers(layer, mapping, loops, level, t, with_hops, traffic);
                continue;
            }
            // Receivers that differ in a relevant dimension want different words, all others the same.
            const double scatter = !fanned ? 1 : !layer.multicast[cell] ? fan
                                   : spatial_product(layer, mapping, level, fanned & space.relevant);
            traffic.tally[cell].assign(1, Kind{fan / scatter, scatter, traffic.wanted[cell] * scatter, 0});
        }
    }
}

}  // namespace fadiff
