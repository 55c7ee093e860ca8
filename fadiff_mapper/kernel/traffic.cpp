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
      rows(std::size_t(layer.levels) * layer.dims), steps(rows.size() * window_ranks(layer)),
      scratch(4 * window_ranks(layer)), moved(window_ranks(layer)), loops(layer) {}

// Words over the whole run that need not be sent because the tile of the step before held them: of the n steps of the
// loop that moves the tile, n - 1 find the overlap in place, in each of the visits / n runs of the loop.
static Lanes held_words(const DataSpace& space, const Mover& mover, const Lanes* below) {
    Lanes overlap = where(mover.some, 1.0);
    for (std::size_t r = 0; r < space.ranks.size(); ++r)
        overlap *= larger(extent(space.ranks[r], below) - mover.steps[r], 0.0);
    return overlap * (mover.visits - mover.visits / mover.bound);
}

Mask several_move_one_rank(const Layer& layer, const MappingPack& pack, const DataSpace& space, int level) {
    Mask several = mask_of(false);
    for (const Rank& rank : space.ranks) {
        if (rank.terms.size() < 2) continue;
        Lanes moving = 0.0;
        for (int outer = level; outer < layer.levels; ++outer)
            for (Dims left = rank.dims & pack.temporal_dims[outer]; left; left &= left - 1)
                moving += where(pack.temporal(outer, layer.dims)[__builtin_ctzll(left)] > 1.0, 1.0);
        several = several | (moving > 1.0);
    }
    return several;
}

// Demand of one receiver of a sliding window: the walk of window_walk.hpp for eight mappings, without its division into
// deliveries that repeat and others. `steps` [row][stride] hold the moves of the window's ranks by each of `count` rows.
static Lanes walk_window(const DataSpace& space, const Traffic& traffic, const Lanes* steps, std::size_t stride, int count,
                         const Lanes* below, Lanes words, Lanes* scratch) {
    const std::size_t ranks = space.ranks.size();
    Lanes *extents = scratch, *travelled = scratch + ranks, *move = scratch + 2 * ranks, *first = scratch + 3 * ranks;
    for (std::size_t r = 0; r < ranks; ++r) {
        extents[r] = extent(space.ranks[r], below);
        travelled[r] = first[r] = 0.0;
    }
    Mask some = mask_of(false);  // a loop that moves the tile was met
    Lanes fresh = words, total = words;
    for (int row = count - 1; row >= 0; --row) {
        const Traffic::Row& loop = traffic.rows[row];
        Mask moves = mask_of(false), like_first = loop.present;
        for (std::size_t r = 0; r < ranks; ++r) {
            const Lanes step = steps[row * stride + r];
            // one step ahead, less one step of every loop inside: Timeloop leaves those at iteration 1
            move[r] = step - travelled[r];
            travelled[r] += step;
            moves = moves | (move[r] != 0.0);
            like_first = like_first & (move[r] == first[r]);
        }
        moves = moves & loop.present;
        const Mask is_first = moves & ~some;
        if (is_first.any()) {
            Lanes overlap = 1.0;
            for (std::size_t r = 0; r < ranks; ++r) {
                overlap *= larger(extents[r] - absolute(move[r]), 0.0);
                first[r] = select(is_first, move[r], first[r]);
            }
            fresh = select(is_first, words - overlap, fresh);
            some = some | is_first;
        }
        const Lanes sent = select((like_first & moves) | is_first, fresh, where(moves, words));
        total += sent * ((loop.bound - 1.0) * loop.further);
    }
    return total;
}

// Adds the row of one loop position; returns whether some lane has a loop there.
static bool add_row(const Layer& layer, const MappingPack& pack, const Tiles& tiles, int level, const DimLanes& dims,
                    std::size_t stride, int count, Lanes outside, Traffic& traffic) {
    if (dims.uniform() && !(pack.temporal_dims[level] >> dims.dim[0] & 1)) return false;
    Traffic::Row& row = traffic.rows[count];
    row.bound = at_dims(pack.temporal(level, layer.dims), dims);
    row.present = row.bound > 1.0;
    if (!row.present.any()) return false;
    row.further = outside;
    if (!stride) return true;
    const Lanes points = where(row.present, at_dims(&tiles.across[std::size_t(level) * layer.dims], dims));
    Lanes* step = &traffic.steps[count * stride];
    for (const DataSpace& space : layer.spaces)
        for (std::size_t r = 0; space.windowed && r < space.ranks.size(); ++r) {
            const double* move = &space.move[r * layer.dims];
            *step++ = points * (dims.uniform() ? Lanes(move[dims.dim[0]])
                                               : lanes_of([&](int lane) { return move[dims.dim[lane]]; }));
        }
    return true;
}

// Below the innermost level sits the arithmetic, which asks for one word per cycle. Elsewhere a tile is sent again for
// every outer temporal loop, except for the run of irrelevant loops that directly surrounds it.
void count_demand(const Layer& layer, const MappingPack& pack, const Tiles& tiles, bool with_hops, Traffic& traffic) {
    const int tensors = layer.tensors;
    const std::size_t stride = traffic.scratch.size() / 4;
    int count = 0;
    Lanes outside = 1.0;
    std::vector<Mover>& movers = traffic.movers;
    movers.assign(tensors, Mover());
    std::size_t first_rank = 0;
    for (int t = 0; t < tensors; ++t)
        if (layer.spaces[t].windowed) {
            movers[t].steps = &traffic.moved[first_rank];
            std::fill_n(movers[t].steps, layer.spaces[t].ranks.size(), Lanes(0.0));
            first_rank += layer.spaces[t].ranks.size();
        }
    for (int level = layer.levels - 1; level >= 0; --level) {
        for (int position = layer.dims - 1; position >= 0 && pack.temporal_dims[level]; --position) {
            const DimLanes& dims = pack.order[std::size_t(level) * layer.dims + position];
            if (!add_row(layer, pack, tiles, level, dims, stride, count, outside, traffic)) continue;
            const Traffic::Row& row = traffic.rows[count];
            outside *= row.bound;
            const Lanes* step = traffic.steps.data() + count * stride;
            for (int t = 0; t < tensors; ++t) {
                const DataSpace& space = layer.spaces[t];
                Mover& mover = movers[t];
                const Mask moves = row.present & in_set(space.relevant, dims);
                mover.visits = select(moves, outside, mover.visits);
                if (!space.windowed) continue;
                mover.bound = select(moves, row.bound, mover.bound);
                mover.some = mover.some | moves;
                for (std::size_t r = 0; r < space.ranks.size(); ++r) mover.steps[r] = select(moves, *step++, mover.steps[r]);
            }
            ++count;
        }
        const Lanes* below = &tiles.below[std::size_t(level) * layer.dims];
        std::size_t window = 0;
        for (int t = 0; t < tensors; ++t) {
            const DataSpace& space = layer.spaces[t];
            const std::size_t cell = std::size_t(level) * tensors + t, own = window;
            window += space.windowed ? space.ranks.size() : 0;
            Lanes& wanted = traffic.wanted[cell];
            const Lanes words = tiles.below_size[cell];
            if (level == 0 || !layer.held[cell]) {
                wanted = words * outside;
                continue;
            }
            wanted = words * movers[t].visits;
            if (!space.windowed) continue;
            const Mask in_full = with_hops ? mask_of(true) : pack.keep[cell - tensors];
            if (!in_full.any()) continue;
            const Mask several = in_full & several_move_one_rank(layer, pack, space, level);
            wanted = wanted - where(in_full, held_words(space, movers[t], below));
            if (several.any())
                wanted = select(several, walk_window(space, traffic, traffic.steps.data() + own, stride, count, below, words,
                                                     traffic.scratch.data()), wanted);
        }
    }
}

// The receivers of one cell of one mapping, one by one: calls whose words a neighbour holds go over links where that saves words,
// that is where every member of some group finds its words there; all other calls are added up and sent as if in one.
// Returns the words that go over links.
static double count_receivers(const Layer& layer, const Mapping& mapping, const Loops& loops, int level, int t,
                              bool with_hops, Traffic& traffic, Tally& tally) {
    const DataSpace& space = layer.spaces[t];
    const std::size_t cell = std::size_t(level) * layer.tensors + t;
    WindowWalk& walk = traffic.walk;
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
            return 0;
        }
        count_groups(layer, space, mapping, loops, level, traffic.groups);
        for (const auto& entry : traffic.groups.entries)
            tally.push_back({entry.size, entry.groups, entry.groups * unlinked, 0});
        return 0;
    }
    Grid& grid = traffic.grid;
    place_receivers(layer, space, mapping, loops, level, traffic.last.data(), grid);
    double links = 0;
    bool grouped = false;  // groups matter only once words go over links, or hops are counted
    for (int s = 0; s < count; ++s) {
        const double words = walk.repeated[s];
        const int linked = may_link(s) ? find_linked(grid, walk.move(s), walk.ranks) : 0;
        if (linked > 0 && !grouped) find_groups(grid, layer.multicast[cell]), grouped = true;
        if (linked > 0 && groups_left(grid) < grid.groups) {
            add_call(grid, words, with_hops, tally);
            links += words * linked;
        } else {
            unlinked += words;
        }
    }
    if (!grouped) find_groups(grid, layer.multicast[cell]);
    std::fill(grid.linked.begin(), grid.linked.end(), std::uint8_t(0));
    add_call(grid, unlinked, with_hops, tally);
    return links;
}

// Lanes with a spatial loop of some dimensions below a level, one bit each.
static unsigned lanes_fanned(const Layer& layer, const MappingPack& pack, int level, Dims dims) {
    unsigned lanes = 0;
    for (Dims left = dims & pack.spatial_dims[level]; left; left &= left - 1) {
        const Mask fanned = pack.spatial(level, layer.dims)[__builtin_ctzll(left)] > 1.0;
        for (int lane = 0; lane < LANES; ++lane) lanes |= unsigned(fanned[lane]) << lane;
    }
    return lanes;
}

unsigned lanes_countable(const Layer& layer, const Tiles& tiles) {
    unsigned lanes = (1u << LANES) - 1;
    for (int level = 0; level < layer.levels; ++level)
        for (int lane = 0; lane < LANES; ++lane)
            if (!(tiles.fan[level][lane] <= MOST_RECEIVERS)) lanes &= ~(1u << lane);
    return lanes;
}

void count_delivery(const Layer& layer, const MappingPack& pack, const Tiles& tiles, bool with_hops, unsigned lanes,
                    Traffic& traffic) {
    for (int level = 0; level < layer.levels; ++level) {
        const Lanes fan = tiles.fan[level];
        for (int t = 0; t < layer.tensors; ++t) {
            const DataSpace& space = layer.spaces[t];
            const std::size_t cell = std::size_t(level) * layer.tensors + t;
            traffic.links[cell] = 0.0;
            // Receivers that differ in a relevant dimension want different words, all others the same.
            Lanes scatter = 1.0;
            if (pack.spatial_dims[level])
                scatter = layer.multicast[cell] ? spatial_product(layer, pack, level, space.relevant) : fan;
            traffic.scatter[cell] = scatter;
            traffic.multicast[cell] = pack.spatial_dims[level] ? fan / scatter : Lanes(1.0);
            traffic.words[cell] = traffic.wanted[cell] * scatter;
            // Receivers that hold nothing, such as the arithmetic, may take over the words of the call before.
            const Dims differing = with_hops || !layer.held[cell] ? ~Dims(0) : space.shared;
            traffic.counted[cell] = std::uint8_t(lanes & lanes_fanned(layer, pack, level, differing));
        }
    }
    for (int lane = 0; lane < LANES; ++lane) {
        bool ready = false;
        for (std::size_t cell = 0; cell < traffic.counted.size(); ++cell) {
            if (!(traffic.counted[cell] >> lane & 1)) continue;
            if (!ready) line_up(layer, pack, tiles, lane, traffic.loops), ready = true;
            traffic.links[cell].set(lane, count_receivers(layer, *pack.mapping[lane], traffic.loops, int(cell) / layer.tensors,
                                                          int(cell) % layer.tensors, with_hops, traffic,
                                                          traffic.tally[cell * LANES + lane]));
        }
    }
}

}  // namespace fadiff
