#include "receivers.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>

namespace fadiff {

Kind& kind_of(Tally& tally, double multicast, double scatter) {
    auto at = tally.begin();
    while (at != tally.end() && (at->multicast < multicast || (at->multicast == multicast && at->scatter < scatter))) ++at;
    if (at == tally.end() || at->multicast != multicast || at->scatter != scatter)
        at = tally.insert(at, Kind{multicast, scatter, 0, 0});
    return *at;
}

void last_offset(const DataSpace& space, const FanOut& fan_out, std::vector<double>& offset) {
    offset.assign(space.ranks.size(), 0.0);
    for (std::size_t r = 0; r < offset.size(); ++r)
        for (const Rank::Term& term : space.ranks[r].terms)
            offset[r] += term.coefficient * fan_out.below[term.dim] * (fan_out.spatial[term.dim] - 1);
}

// Positions that a joined number can tell apart: doubles are exact up to there.
constexpr double EXACT = 0x1p53;

// Weights that join the ranks to one number: a receiver's offset moved lies between -last and 2 last in every rank.
static void join_ranks(const double* last, int ranks, Grid& grid) {
    grid.pitch.assign(std::size_t(ranks), 1.0);
    double size = last ? 1 : 2 * EXACT;
    for (int r = 0; last && r < ranks; ++r) {
        grid.pitch[r] = size;
        size *= 4 * last[r] + 1;
    }
    if (size > EXACT) grid.pitch.clear();
    grid.coordinates = grid.pitch.empty() ? ranks : 1;
}

// A vector [R] in the coordinates of the grid.
static void join(const double* ranks, int count, const Grid& grid, std::vector<double>& joined) {
    if (grid.pitch.empty()) {
        joined.assign(ranks, ranks + count);
        return;
    }
    joined.assign(1, 0.0);
    for (int r = 0; r < count; ++r) joined[0] += ranks[r] * grid.pitch[r];
}

// Calls `own(axis, bound, d)` for the spatial loops of some dimensions, X loops from the innermost, then those along Y.
template <typename Own>
static void each_loop(const FanOut& fan_out, Dims dims, Own own) {
    for (int axis = 0; axis < 2; ++axis)
        for (int d : fan_out.order)
            if ((fan_out.fanned & dims) >> d & 1 && (fan_out.on_y[d] != 0) == (axis == 1)) own(axis, int(fan_out.spatial[d]), d);
}

void place_receivers(const Layer& layer, const DataSpace& space, const FanOut& fan_out, Dims dims, const double* last, Grid& grid) {
    const int ranks = int(space.ranks.size());
    const auto step_of = [&](int r, int d) { return space.move[std::size_t(r) * layer.dims + d] * fan_out.below[d]; };
    std::vector<double>& loops = grid.wanted;
    loops.clear();
    each_loop(fan_out, dims, [&](int axis, int bound, int d) {
        loops.push_back(axis);
        loops.push_back(bound);
        for (int r = 0; r < ranks; ++r) loops.push_back(step_of(r, d));
    });
    if (loops == grid.placed && !grid.offset.empty()) return;
    grid.placed = loops;
    grid.groups = 0;
    join_ranks(last, ranks, grid);
    const int coordinates = grid.coordinates;
    grid.offset.resize(std::size_t(spatial_product(fan_out, fan_out.fanned & dims)) * coordinates);
    std::fill_n(grid.offset.begin(), coordinates, 0.0);
    int count = 1;
    std::vector<double>& step = grid.step;
    each_loop(fan_out, dims, [&](int, int bound, int d) {
        grid.wanted.resize(std::size_t(ranks));
        for (int r = 0; r < ranks; ++r) grid.wanted[r] = step_of(r, d);
        join(grid.wanted.data(), ranks, grid, step);
        // a further loop repeats the receivers so far, `bound` - 1 times, each time one more step away
        double* offset = grid.offset.data();
        const int inner = count * coordinates;
        for (int e = inner; e < bound * inner; ++e) offset[e] = offset[e - inner] + step[e % coordinates];
        count *= bound;
    });
    grid.count = count;
    grid.width = fan_out.width, grid.height = fan_out.height;
    grid.linked.assign(count, 0);
}

static bool same(const double* a, const double* b, int coordinates) {
    for (int i = 0; i < coordinates; ++i)
        if (a[i] != b[i]) return false;
    return true;
}

// Groups are numbered in the order of their first members. A hash table of open addressing, at most half full, finds
// earlier members; offsets are compared in full, so that the hash decides speed alone. 2654435761 is Knuth's
// multiplier for multiplicative hashing (2^32 over the golden ratio).
void find_groups(Grid& grid, bool multicast) {
    grid.group.resize(grid.count);
    grid.groups = 0;
    if (!multicast) {
        for (int e = 0; e < grid.count; ++e) grid.group[e] = grid.groups++;
        return;
    }
    std::size_t length = 2;
    while (length < 2 * std::size_t(grid.count)) length *= 2;
    grid.table.assign(length, -1);
    for (int e = 0; e < grid.count; ++e) {
        std::uint64_t code = 0;
        for (int i = 0; i < grid.coordinates; ++i) code = code * 31 + std::uint64_t(std::int64_t(grid.at(e)[i]));
        std::size_t at = (code * 2654435761u >> 16) & (length - 1);
        while (grid.table[at] >= 0 && !same(grid.at(grid.table[at]), grid.at(e), grid.coordinates)) at = (at + 1) & (length - 1);
        if (grid.table[at] < 0) {
            grid.table[at] = e;
            grid.group[e] = grid.groups++;
        } else {
            grid.group[e] = grid.group[grid.table[at]];
        }
    }
}

int find_linked(Grid& grid, const Grid& before, const double* move, int ranks) {
    join(move, ranks, grid, grid.wanted);
    const int coordinates = grid.coordinates;
    const double *by = grid.wanted.data(), *offset = grid.offset.data(), *old = before.offset.data();
    const double joined = coordinates == 1 ? by[0] : 0;
    std::uint8_t* linked = grid.linked.data();
    std::fill_n(linked, grid.count, 0);
    each_neighbour(grid, before.count, [=](int begin, int end, int on) {
        for (int e = begin; e < end && coordinates == 1; ++e) linked[e] |= old[e + on] == offset[e] + joined;
        for (int e = begin; e < end && coordinates != 1; ++e) {
            bool held = true;
            for (int i = 0; i < coordinates; ++i) held &= old[(e + on) * coordinates + i] == offset[e * coordinates + i] + by[i];
            linked[e] |= held;
        }
    });
    return int(std::count(linked, linked + grid.count, 1));
}

int groups_left(Grid& grid) {
    grid.size.assign(grid.groups, 0);
    for (int e = 0; e < grid.count; ++e) grid.size[grid.group[e]] += !grid.linked[e];
    return int(std::count_if(grid.size.begin(), grid.size.end(), [](int size) { return size > 0; }));
}

// Column by column, as only the outermost members of a column count: `lowest` and `highest` are those of each group in
// the column that was looked at last, `farthest` the last column with a member.
void count_hops(Grid& grid) {
    grid.hops.assign(grid.groups, 0.0);
    grid.farthest.assign(grid.groups, -1);
    grid.lowest.resize(grid.groups);
    grid.highest.resize(grid.groups);
    const double middle = (grid.height - 1) / 2.0;
    const auto end_column = [&](int group) {
        if (grid.farthest[group] < 0) return;
        grid.hops[group] += std::max(0.0, middle - grid.lowest[group]) + std::max(0.0, grid.highest[group] - middle);
    };
    for (int across = 0; across < std::min(grid.width, grid.count); ++across)
        for (int e = across, down = 0; e < grid.count; e += grid.width, ++down) {
            if (grid.linked[e]) continue;
            const int group = grid.group[e];
            if (grid.farthest[group] != across) {
                end_column(group);
                grid.farthest[group] = across;
                grid.lowest[group] = down;
            }
            grid.highest[group] = down;
        }
    for (int group = 0; group < grid.groups; ++group) {
        end_column(group);
        grid.hops[group] += std::max(0, grid.farthest[group]);
    }
}

void list_kinds(Grid& grid, bool with_hops, Tally& kinds) {
    groups_left(grid);
    grid.scatter.assign(grid.count + 1, 0);
    grid.hop_sum.assign(grid.count + 1, 0.0);
    if (with_hops) count_hops(grid);
    for (int g = 0; g < grid.groups; ++g) {
        ++grid.scatter[grid.size[g]];
        if (with_hops) grid.hop_sum[grid.size[g]] += grid.hops[g];
    }
    kinds.clear();
    for (int multicast = 1; multicast <= grid.count; ++multicast)
        if (grid.scatter[multicast]) kinds.push_back({double(multicast), double(grid.scatter[multicast]), 0, grid.hop_sum[multicast]});
}

void count_groups(const Layer& layer, const DataSpace& space, const FanOut& fan_out, bool multicast, const double* last,
                  Grid& connected, Tally& kinds) {
    Dims sharing = 0;   // dimensions of loops that share a rank
    for (const Rank& rank : space.ranks)
        if (const Dims looping = rank.dims & fan_out.fanned; multicast && looping & (looping - 1)) sharing |= looping;
    const Dims apart = fan_out.fanned & ~sharing;
    const Groups<double> groups = multiply_groups(multicast, spatial_product(fan_out, apart), [&] {
        return spatial_product(fan_out, apart & space.relevant);
    });
    kinds.assign(1, {groups.multicast, groups.scatter, 0, 0});
    for (Dims left = sharing; left;) {
        // Dimensions connected with the first one that is left, by ranks that they share.
        Dims dims = left & -left, before = 0;
        while (dims != before) {
            before = dims;
            for (const Rank& rank : space.ranks)
                if (rank.dims & dims) dims |= rank.dims & left;
        }
        left &= ~dims;
        place_receivers(layer, space, fan_out, dims, last, connected);
        if (!connected.groups) {
            find_groups(connected, true);
            list_kinds(connected, false, connected.kinds);
        }
        Tally product;
        for (const Kind& one : kinds)
            for (const Kind& own : connected.kinds) {
                const double size = one.multicast * own.multicast;
                auto at = std::find_if(product.begin(), product.end(), [&](const Kind& kind) { return kind.multicast >= size; });
                if (at == product.end() || at->multicast > size) at = product.insert(at, {size, 0, 0, 0});
                at->scatter += one.scatter * own.scatter;
            }
        kinds.swap(product);
    }
}

void add_call(Grid& grid, double words, bool with_hops, Tally& tally) {
    list_kinds(grid, with_hops, grid.kinds);
    for (const Kind& own : grid.kinds) {
        Kind& kind = kind_of(tally, own.multicast, own.scatter);
        kind.words += own.scatter * words;
        kind.hop_words += own.hop_words * words;
    }
}

}  // namespace fadiff
