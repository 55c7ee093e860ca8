#include "residual_receivers.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>

namespace fadiff {

double Boxes::words() const {
    double all = 0;
    for (int box = 0; box < count; ++box) {
        double words = 1;
        for (int r = 0; r < ranks; ++r) words *= double(high[box * ranks + r] - low[box * ranks + r]);
        all += words;
    }
    return all;
}

void subtract(const Position* low, const Position* high, const Position* without_low, const Position* without_high, int ranks,
              std::vector<Position>& corners, Boxes& into) {
    into.clear(ranks);
    for (int r = 0; r < ranks; ++r)
        if (high[r] <= without_low[r] || without_high[r] <= low[r]) return into.add(low, high);
    corners.assign(low, low + ranks);
    corners.insert(corners.end(), high, high + ranks);
    Position *from = corners.data(), *to = from + ranks;
    for (int r = 0; r < ranks; ++r) {
        if (from[r] < without_low[r]) {
            const Position end = to[r];
            to[r] = without_low[r];
            into.add(from, to);
            from[r] = without_low[r], to[r] = end;
        }
        if (without_high[r] < to[r]) {
            const Position begin = from[r];
            from[r] = without_high[r];
            into.add(from, to);
            from[r] = begin, to[r] = without_high[r];
        }
    }
}

// The boxes of a set in the order of their corners.
static std::vector<int> in_order(const Boxes& boxes) {
    std::vector<int> order(boxes.count);
    std::iota(order.begin(), order.end(), 0);
    const auto corner = [&](int box) { return boxes.low.begin() + std::ptrdiff_t(box) * boxes.ranks; };
    std::sort(order.begin(), order.end(), [&](int a, int b) {
        return std::lexicographical_compare(corner(a), corner(a) + boxes.ranks, corner(b), corner(b) + boxes.ranks);
    });
    return order;
}

bool same_shape(const Boxes& before, const Boxes& now, std::vector<Position>& move) {
    if (before.count != now.count || !now.count) return false;
    const int ranks = now.ranks;
    if (now.count == 1) {
        move.resize(ranks);
        for (int r = 0; r < ranks; ++r) {
            move[r] = now.low[r] - before.low[r];
            if (now.high[r] - before.high[r] != move[r]) return false;
        }
        return true;
    }
    const std::vector<int> first = in_order(before), second = in_order(now);
    move.resize(ranks);
    for (int r = 0; r < ranks; ++r) move[r] = now.low[second[0] * ranks + r] - before.low[first[0] * ranks + r];
    for (int box = 0; box < now.count; ++box)
        for (int r = 0; r < ranks; ++r) {
            const int a = first[box] * ranks + r, b = second[box] * ranks + r;
            if (now.low[b] - before.low[a] != move[r] || now.high[b] - before.high[a] != move[r]) return false;
        }
    return true;
}

Sharing sharing_of(const Layer& layer, const DataSpace& space, const std::vector<SpatialLoop>& loops, int width, int height) {
    Sharing sharing;
    sharing.loops = loops;
    sharing.ranks = int(space.ranks.size()), sharing.width = width, sharing.height = height;
    sharing.last.assign(sharing.ranks, 0);
    for (const SpatialLoop& loop : loops) {
        sharing.count *= loop.bound;
        for (int r = 0; r < sharing.ranks; ++r) {
            sharing.step.push_back(Position(space.move[std::size_t(r) * layer.dims + loop.dim]) * loop.points);
            sharing.last[r] += sharing.step.back() * (loop.bound - 1);
        }
    }
    return sharing;
}

void place(Sharing& sharing) {
    if (!sharing.offset.empty()) return;
    const int ranks = sharing.ranks;
    sharing.offset.assign(std::size_t(sharing.count) * ranks, 0);
    std::size_t placed = 1;  // receivers of the loops inside the present one
    for (std::size_t j = 0; j < sharing.loops.size(); ++j) {
        const std::size_t all = placed * sharing.loops[j].bound;
        for (std::size_t e = placed; e < all; ++e)
            for (int r = 0; r < ranks; ++r)
                sharing.offset[e * ranks + r] = sharing.offset[(e - placed) * ranks + r] + sharing.step[j * ranks + r];
        placed = all;
    }
}

// Hops of a word to the receivers of one group, as Timeloop counts them (see count_hops of receivers.hpp).
static double hops_to(const int* members, int count, int width, int height) {
    struct Reach {
        int low, high;
    };
    std::map<int, Reach> columns;
    for (int i = 0; i < count; ++i) {
        const int h = members[i] % width, v = members[i] / width;
        auto [at, fresh] = columns.try_emplace(h, Reach{v, v});
        if (!fresh) at->second = {std::min(at->second.low, v), std::max(at->second.high, v)};
    }
    const double middle = (height - 1) / 2.0;
    double hops = columns.rbegin()->first;
    for (auto& [h, reach] : columns) hops += std::max(middle - reach.low, 0.0) + std::max(reach.high - middle, 0.0);
    return hops;
}

Tally kinds_of(const Sharing& sharing, const std::vector<std::uint8_t>& linked, bool multicast, bool with_hops) {
    std::vector<int> left;
    for (int e = 0; e < sharing.count; ++e)
        if (linked.empty() || !linked[e]) left.push_back(e);
    const int ranks = sharing.ranks;
    const auto equal = [&](int a, int b) { return std::equal(sharing.at(a), sharing.at(a) + ranks, sharing.at(b)); };
    if (multicast)
        std::stable_sort(left.begin(), left.end(), [&](int a, int b) {
            return std::lexicographical_compare(sharing.at(a), sharing.at(a) + ranks, sharing.at(b), sharing.at(b) + ranks);
        });
    std::map<int, std::pair<int, double>> sizes;  // members -> groups, hops of all groups
    for (std::size_t first = 0; first < left.size();) {
        std::size_t end = first + 1;
        while (multicast && end < left.size() && equal(left[first], left[end])) ++end;
        auto& [groups, hops] = sizes[int(end - first)];
        ++groups;
        if (with_hops) hops += hops_to(left.data() + first, int(end - first), sharing.width, sharing.height);
        first = end;
    }
    Tally kinds;
    for (auto& [members, groups] : sizes) kinds.push_back({double(members), double(groups.first), 0, groups.second});
    return kinds;
}

Tally kinds_without_hops(const Layer& layer, const DataSpace& space, const std::vector<SpatialLoop>& loops, bool multicast) {
    FanOut fan_out(layer);
    std::fill(fan_out.spatial.begin(), fan_out.spatial.end(), 1.0);
    std::fill(fan_out.below.begin(), fan_out.below.end(), 1.0);
    for (const SpatialLoop& loop : loops) {
        fan_out.spatial[loop.dim] = loop.bound, fan_out.below[loop.dim] = double(loop.points);
        fan_out.fan *= loop.bound;
        if (loop.bound > 1) fan_out.fanned |= Dims(1) << loop.dim;
    }
    if (!multicast) return {{1, fan_out.fan, 0, 0}};
    GroupSizes sizes;
    count_groups(layer, space, fan_out, sizes);
    Tally kinds;
    for (const auto& entry : sizes.entries) kinds.push_back({entry.size, entry.groups, 0, 0});
    return kinds;
}

int find_neighbours(const Sharing& before, const Sharing& now, const std::vector<Position>& move,
                    std::vector<std::uint8_t>& linked) {
    const int ranks = now.ranks, width = now.width;
    linked.assign(now.count, 0);
    for (int r = 0; r < ranks; ++r)  // a move beyond the last receiver's words is beyond all words
        if (std::abs(move[r]) > std::max(before.last[r], now.last[r])) return 0;
    const auto held = [&](int e, int neighbour) {
        if (neighbour < 0 || neighbour >= before.count) return false;
        for (int r = 0; r < ranks; ++r)
            if (now.at(e)[r] + move[r] != before.at(neighbour)[r]) return false;
        return true;
    };
    int found = 0;
    for (int e = 0; e < now.count; ++e) {
        const int h = e % width;
        if ((h > 0 && held(e, e - 1)) || (h + 1 < width && held(e, e + 1)) || held(e, e - width) || held(e, e + width))
            linked[e] = 1, ++found;
    }
    return found;
}

}  // namespace fadiff
