#include "traffic.hpp"

#include <algorithm>
#include <cmath>

namespace fadiff {

static std::size_t window_ranks(const Layer& layer) {
    std::size_t ranks = 0;
    for (const DataSpace& space : layer.spaces) ranks += space.windowed ? space.ranks.size() : 0;
    return ranks;
}

Traffic::Traffic(const Layer& layer)
    : wanted(std::size_t(layer.levels) * layer.tensors), words(wanted.size()), multicast(wanted.size()),
      scatter(wanted.size()), links(wanted.size()), counted(wanted.size()), tally(wanted.size() * LANES),
      visits(layer.tensors), rows(std::size_t(layer.levels) * layer.dims), ranks(window_ranks(layer)),
      steps(rows.size() * ranks), scratch(4 * ranks), loops(layer), fan_out(layer), grids(wanted.size()) {}

// Demand of one receiver of a sliding window. `first_rank`: number of the window's first rank among those of all windows.
static Lanes walk_window(const DataSpace& space, std::size_t first_rank, const Lanes* below, Lanes words, Traffic& traffic) {
    const std::size_t ranks = space.ranks.size();
    const Lanes* steps = traffic.steps.data() + first_rank;
    Lanes* scratch = traffic.scratch.data();
    Lanes *extents = scratch, *inside = scratch + ranks, *move = scratch + 2 * ranks, *first = scratch + 3 * ranks;
    for (std::size_t r = 0; r < ranks; ++r) {
        extents[r] = extent(space.ranks[r], below);
        inside[r] = first[r] = 0.0;
    }
    SlidingTile<Lanes, Mask> tile{int(ranks), extents, words, first, mask_of(false), words};
    Lanes total = words;
    for (int row = traffic.row_count - 1; row >= 0; --row) {
        const Row& loop = traffic.rows[row];
        for (std::size_t r = 0; r < ranks; ++r) move[r] = move_ahead(steps[row * traffic.ranks + r], inside[r]);
        total += tile.brought(move, loop.present) * ((loop.bound - 1.0) * loop.further);
    }
    return total;
}

// Adds the rows of the loops of one level, which stand inside all rows so far.
static void add_rows(const Layer& layer, const MappingPack& pack, const Tiles& tiles, int level, Traffic& traffic) {
    const std::size_t first = std::size_t(level) * layer.dims;
    const Lanes *bound = pack.temporal(level, layer.dims), *position = &pack.position[first], *points = &tiles.across[first];
    for (int at = layer.dims - 1; at >= 0 && pack.temporal_dims(level); --at) {
        Row& row = traffic.rows[traffic.row_count];
        Lanes* step = &traffic.steps[traffic.row_count * traffic.ranks];
        row.bound = 1.0;
        std::fill_n(step, traffic.ranks, Lanes(0.0));
        bool some = false;
        for (const int d : members(pack.temporal_dims(level))) {
            const Mask here = (position[d] == double(at)) & (bound[d] > 1.0);
            if (!here.any()) continue;
            some = true;
            row.bound = select(here, bound[d], row.bound);
            std::size_t rank = 0;
            for (const DataSpace& space : layer.spaces)
                for (std::size_t r = 0; space.windowed && r < space.ranks.size(); ++r, ++rank)
                    if (space.ranks[r].dims >> d & 1)
                        step[rank] = select(here, points[d] * space.move[r * layer.dims + d], step[rank]);
        }
        if (!some) continue;
        row.present = row.bound > 1.0;
        const Row* outer = traffic.row_count ? &row - 1 : nullptr;
        row.further = outer ? outer->further * outer->bound : Lanes(1.0);
        ++traffic.row_count;
    }
}

// Goes from the loops further out than a level to those at or outside it: the visits of each tile, and `outside`, the
// iterations of all loops. A loop moves a tile if its dimension is relevant; the innermost such loop of the level and all
// loops further out make the visits of the tile.
static void take_in(const Layer& layer, const MappingPack& pack, int level, Lanes& outside, std::vector<Lanes>& visits) {
    const Lanes *bound = pack.temporal(level, layer.dims), *position = &pack.position[std::size_t(level) * layer.dims];
    const Dims looping = pack.temporal_dims(level);
    const Lanes none = layer.dims;  // a position beyond all loops
    for (int t = 0; t < layer.tensors; ++t) {
        const Dims relevant = looping & layer.spaces[t].relevant;
        if (!relevant) continue;
        Lanes innermost = none, own = outside;
        for (const int d : members(relevant)) innermost = smaller(innermost, select(bound[d] > 1.0, position[d], none));
        for (const int d : members(looping)) own *= select(position[d] < innermost, 1.0, bound[d]);
        visits[t] = select(innermost < none, own, visits[t]);
    }
    for (const int d : members(looping)) outside *= bound[d];
}

// Below the innermost level sits the arithmetic, which asks for one word per cycle. Elsewhere a tile is sent again for
// every outer temporal loop, except for the run of irrelevant loops that directly surrounds it; of a window that slides,
// only new words.
void count_demand(const Layer& layer, const MappingPack& pack, const Tiles& tiles, bool with_hops, Traffic& traffic) {
    Lanes outside = 1.0;
    traffic.row_count = 0;
    traffic.rows_from = layer.levels;
    traffic.visits.assign(layer.tensors, Lanes(1.0));   // no loop moves a tile yet
    for (int level = layer.levels - 1; level >= 0; --level) {
        take_in(layer, pack, level, outside, traffic.visits);
        const Lanes* below = &tiles.below[std::size_t(level) * layer.dims];
        std::size_t first_rank = 0;
        for (int t = 0; t < layer.tensors; ++t) {
            const DataSpace& space = layer.spaces[t];
            const std::size_t cell = std::size_t(level) * layer.tensors + t, own = first_rank;
            first_rank += space.windowed ? space.ranks.size() : 0;
            Lanes& wanted = traffic.wanted[cell];
            const Lanes words = tiles.below_size[cell];
            if (level == 0 || !layer.held[cell]) {
                wanted = words * outside;
                continue;
            }
            wanted = words * traffic.visits[t];
            if (!space.windowed) continue;
            const Mask in_full = with_hops ? mask_of(true) : pack.keep[cell - layer.tensors];
            if (!in_full.any()) continue;
            while (traffic.rows_from > level) add_rows(layer, pack, tiles, --traffic.rows_from, traffic);
            wanted = select(in_full, walk_window(space, own, below, words, traffic), wanted);
        }
    }
}

// The receivers of one cell of one mapping, one by one: calls whose words a neighbour holds go over links where that saves words,
// that is where every member of some group finds its words there; all other calls are added up and sent as if in one.
// Returns the words that go over links.
static double count_receivers(const Layer& layer, int t, bool with_hops, Traffic& traffic, Tally& tally) {
    const DataSpace& space = layer.spaces[t];
    const Loops& loops = traffic.loops;
    const FanOut& fan_out = traffic.fan_out;
    const int level = fan_out.level;
    const std::size_t cell = std::size_t(level) * layer.tensors + t;
    WindowWalk& walk = traffic.walk;
    start_walk(layer, space, loops, fan_out, walk);
    const int count = loops.count - loops.start[level];
    const double* bound = loops.bound.data() + loops.start[level];
    double unlinked = layer.held[cell] ? walk_held(bound, count, walk) : walk_unheld(bound, count, walk);
    last_offset(space, fan_out, traffic.last);
    // A move beyond the last receiver's words is beyond all words.
    auto may_link = [&](int s) {
        if (!layer.linked[cell] || !(walk.repeated[s] > 0)) return false;
        for (int r = 0; r < walk.ranks; ++r)
            if (std::abs(walk.move(s)[r]) > traffic.last[r]) return false;
        return true;
    };
    bool placed = with_hops;
    for (int s = 0; s < count && !placed; ++s) placed = may_link(s);
    if (!placed) {
        for (int s = 0; s < count; ++s) unlinked += walk.repeated[s];
        count_groups(layer, space, fan_out, layer.multicast[cell], traffic.last.data(), traffic.connected, tally);
        for (Kind& kind : tally) kind.words = kind.scatter * unlinked;
        return 0;
    }
    tally.clear();
    Grid& grid = traffic.grids[cell];
    place_receivers(layer, space, fan_out, fan_out.fanned, traffic.last.data(), grid);
    double links = 0;
    // Groups matter only once words go over links, or hops are counted.
    const auto group = [&] {
        if (!grid.groups) find_groups(grid, layer.multicast[cell]);
    };
    for (int s = 0; s < count; ++s) {
        const double words = walk.repeated[s];
        const int linked = may_link(s) ? find_linked(grid, grid, walk.move(s), walk.ranks) : 0;
        if (linked > 0) group();
        if (linked > 0 && groups_left(grid) < grid.groups) {
            add_call(grid, words, with_hops, tally);
            links += words * linked;
        } else {
            unlinked += words;
        }
    }
    group();
    std::fill(grid.linked.begin(), grid.linked.end(), std::uint8_t(0));
    add_call(grid, unlinked, with_hops, tally);
    return links;
}

unsigned lanes_countable(const Layer& layer, const Tiles& tiles) {
    Mask countable = mask_of(true);
    for (int level = 0; level < layer.levels; ++level) countable = countable & (Lanes(MOST_RECEIVERS) >= tiles.fan[level]);
    return countable.bits();
}

void count_delivery(const Layer& layer, const MappingPack& pack, const Tiles& tiles, bool with_hops, unsigned lanes,
                    Traffic& traffic) {
    for (int level = 0; level < layer.levels; ++level) {
        for (int t = 0; t < layer.tensors; ++t) {
            const DataSpace& space = layer.spaces[t];
            const std::size_t cell = std::size_t(level) * layer.tensors + t;
            traffic.links[cell] = 0.0;
            Groups<Lanes> groups{1.0, 1.0};
            if (pack.spatial_dims(level))
                groups = multiply_groups(layer.multicast[cell], tiles.fan[level], [&] {
                    return spatial_product(layer, pack, level, space.relevant);
                });
            traffic.multicast[cell] = groups.multicast;
            traffic.scatter[cell] = groups.scatter;
            traffic.words[cell] = traffic.wanted[cell] * groups.scatter;
            // Receivers that hold nothing, such as the arithmetic, may take over the words of the call before.
            const bool any = with_hops || (layer.linked[cell] && !layer.held[cell]);
            unsigned differing = 0;  // lanes with such a loop
            for (const int d : members((any ? ~Dims(0) : space.shared) & pack.spatial_dims(level)))
                differing |= (pack.spatial(level, layer.dims)[d] > 1.0).bits();
            traffic.counted[cell] = std::uint8_t(lanes & differing);
        }
    }
    unsigned some = 0;
    for (std::uint8_t counted : traffic.counted) some |= counted;
    for (const int lane : members(some)) {
        line_up(layer, pack, tiles, lane, traffic.loops);
        for (int level = 0; level < layer.levels; ++level) {
            bool spread = false;
            for (int t = 0; t < layer.tensors; ++t) {
                const std::size_t cell = std::size_t(level) * layer.tensors + t;
                if (!(traffic.counted[cell] >> lane & 1)) continue;
                if (!spread) spread_out(layer, pack, tiles, lane, level, traffic.fan_out), spread = true;
                traffic.links[cell].set(lane, count_receivers(layer, t, with_hops, traffic, traffic.tally[cell * LANES + lane]));
            }
        }
    }
}

}  // namespace fadiff
