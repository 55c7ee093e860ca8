#include "residual_walk.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "window_walk.hpp"

namespace fadiff {

// Words of a box.
static double volume(const Position* low, const Position* high, int ranks) {
    double words = 1;
    for (int r = 0; r < ranks; ++r) words *= double(high[r] - low[r]);
    return words;
}

// A box without another one, cut rank by rank as Timeloop cuts it; `into` is filled anew, `corners` are scratch.
static void subtract(const Position* low, const Position* high, const Position* without_low, const Position* without_high, int ranks,
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

// Whether two sets are equal but for a move, and if so the move from `before` to `now`, [R].
static bool same_shape(const Boxes& before, const Boxes& now, std::vector<double>& move) {
    if (before.count != now.count || !now.count) return false;
    const int ranks = now.ranks;
    if (now.count == 1) {
        move.resize(ranks);
        for (int r = 0; r < ranks; ++r) {
            move[r] = double(now.low[r] - before.low[r]);
            if (double(now.high[r] - before.high[r]) != move[r]) return false;
        }
        return true;
    }
    const std::vector<int> first = in_order(before), second = in_order(now);
    move.resize(ranks);
    for (int r = 0; r < ranks; ++r) move[r] = double(now.low[second[0] * ranks + r] - before.low[first[0] * ranks + r]);
    for (int box = 0; box < now.count; ++box)
        for (int r = 0; r < ranks; ++r) {
            const int a = first[box] * ranks + r, b = second[box] * ranks + r;
            if (double(now.low[b] - before.low[a]) != move[r] || double(now.high[b] - before.high[a]) != move[r]) return false;
        }
    return true;
}

constexpr int NOWHERE = std::numeric_limits<int>::max();

// Iterations of one loop, and coordinates of one rank, that the walk tells apart.
constexpr double MOST_ITERATIONS = 1 << 30, MOST_COORDINATES = 0x1p52;

static bool is_countable(const Layer& layer, const MappingPack& pack, int lane) {
    std::vector<double> points(layer.dims, 1.0);
    for (std::size_t at = 0; at < pack.factor.size(); ++at) {
        if (!(pack.factor[at][lane] <= MOST_ITERATIONS)) return false;
        points[at % layer.dims] *= pack.factor[at][lane];
    }
    for (const DataSpace& space : layer.spaces)
        for (const Rank& rank : space.ranks)
            if (!(extent(rank, points.data()) <= MOST_COORDINATES)) return false;
    return std::all_of(points.begin(), points.end(), [](double own) { return own <= MOST_COORDINATES; });
}

ResidualWalk::ResidualWalk(const Layer& layer, const MappingPack& pack, const Tiles& tiles, int lane, bool with_hops)
    : layer_(layer), with_hops_(with_hops), at_(layer.dims), pending_(layer.dims), imperfect_(layer.dims, NOWHERE),
      words_(layer.tensors), boxes_(layer.tensors) {
    if (!is_countable(layer, pack, lane)) {
        calls_ = std::numeric_limits<double>::infinity();
        return;
    }
    std::vector<Position> whole(layer.dims, 1), rest(layer.dims, 1);
    const int dims = layer.dims;
    // Takes one loop into the tile.
    const auto take = [&](std::size_t place, int d) {
        const Loop loop{d, int(pack.factor[place * dims + d][lane]), int(pack.last[place * dims + d][lane])};
        take_loop<Position>(loop.bound, loop.last, whole[d], rest[d]);
        if (loop.last != loop.bound) imperfect_[d] = std::min(imperfect_[d], int(nodes_.size()));
        return loop;
    };
    for (int level = 0; level < layer.levels; ++level) {
        const std::size_t first = nodes_.size(), places = 2 * std::size_t(level), orders = std::size_t(level) * dims;
        FanOut fan_out(layer);
        spread_out(layer, pack, tiles, lane, level, fan_out);
        fan_ = std::max(fan_, fan_out.fan);
        std::vector<Loop> fan;
        for (const bool on_y : {false, true})
            for (int d : fan_out.order)
                if (fan_out.fanned >> d & 1 && bool(fan_out.on_y[d]) == on_y) fan.push_back(take(places, d));
        const auto add = [&](bool spatial, Loop loop, Position points) {
            nodes_.push_back({level, spatial, nodes_.size() == first, loop, points, {}, {}, whole, rest,
                              std::vector<double>(layer.tensors), std::vector<double>(layer.tensors)});
        };
        if (!fan.empty()) {
            add(true, {}, 1);
            nodes_.back().fan = std::move(fan);
            nodes_.back().receivers.push_back(std::make_unique<Receivers>(Receivers{0, std::move(fan_out), {}}));
        }
        const std::size_t temporal = nodes_.size();
        for (int i = 0; i < dims; ++i) {
            const int d = pack.order[(orders + i) * LANES + lane];
            const Position points = whole[d];
            if (pack.factor[(places + 1) * dims + d][lane] > 1) add(false, take(places + 1, d), points);
        }
        if (nodes_.size() == temporal) add(false, {dims - 1, 1, 1}, whole[dims - 1]);  // a level has at least one loop
    }
    memories_.resize(nodes_.size() * layer.tensors);
    const std::size_t cells = std::size_t(layer.levels) * layer.tensors;
    found_.tally.resize(cells);
    found_.links.resize(cells);
    calls_ = count_calls();
}

// Calls of the innermost loop, dimension by dimension: how often its tile is called where all loops further out are in
// their last iteration, and elsewhere.
double ResidualWalk::count_calls() const {
    std::vector<double> lasts(layer_.dims, 1), others(layer_.dims, 0);
    double most = 0;
    for (int i = int(nodes_.size()) - 1; i >= 0; --i) {
        const Node& node = nodes_[i];
        const auto run = [&](int d, int bound, int last, bool spatial) {
            const double own = spatial ? 1 : std::min(bound, imperfect_[d] < i ? 4 : 2);
            const double ends = spatial ? last == 1 : 1;
            others[d] = others[d] * own + lasts[d] * (own - ends), lasts[d] *= ends;
        };
        if (!node.spatial) run(node.loop.dim, node.loop.bound, node.loop.last, false);
        for (const Loop& loop : node.fan) run(loop.dim, loop.bound, loop.last, true);
        double own = node.spatial ? 8 : 1;
        for (int d = 0; d < layer_.dims; ++d) own *= lasts[d] + others[d];
        if (i > 0) most += own;
    }
    return most;
}

ResidualTraffic ResidualWalk::run() {
    call(int(nodes_.size()) - 1, false);
    return std::move(found_);
}

// Runs a node; leaves in words_ (and, if wanted, boxes_) what the tile of this call needs beyond the one before.
void ResidualWalk::call(int at, bool boxes) {
    const Node& node = nodes_[at];
    if (node.spatial) run_fan_out(at);
    else run_temporal(at);
    for (int t = 0; t < layer_.tensors; ++t) {
        find_tile(node, t);
        remember(at, t, boxes);
    }
}

void ResidualWalk::run_temporal(int at) {
    Node& node = nodes_[at];
    const auto [d, bound, last] = node.loop;
    const bool ends = is_last(d);
    const int count = ends ? last : bound;
    if (at == 0) {
        for (int t = 0; t < layer_.tensors; ++t) kind_of(found_.tally[cell(0, t)], 1, 1).words += count * epochs_;
        return;
    }
    const bool run_last = ends && imperfect_[d] < at, run_before = run_last && bound != last;
    std::vector<double>& sum = node.sum;
    std::fill(sum.begin(), sum.end(), 0.0);
    const Position origin = at_[d];
    // One iteration that stands for `times`; whether its own words count, or once more those of the iteration before.
    const auto iterate = [&, d = d, last = last](int index, int times, bool own) {
        at_[d] = origin + node.points * index;
        pending_[d] += index + 1 < last;
        const double epochs = epochs_;
        epochs_ *= times;
        call(at - 1, false);
        epochs_ = epochs;
        pending_[d] -= index + 1 < last;
        for (int t = 0; t < layer_.tensors; ++t) {
            if (own) node.before[t] = words_[t];
            sum[t] += node.before[t] * times;
        }
    };
    iterate(0, 1, true);
    if (!run_last) {
        if (count >= 2) iterate(1, count - 1, true);
    } else if (!run_before) {
        if (count >= 3) iterate(1, count - 2, true);
        if (count >= 2) iterate(count - 1, 1, count < 3);
    } else {
        if (count >= 4) iterate(1, count - 3, true);
        if (count >= 3) iterate(count - 2, 1, count < 4);
        if (count >= 2) iterate(count - 1, 1, true);
    }
    at_[d] = origin;
    if (!node.sender) return;
    for (int t = 0; t < layer_.tensors; ++t) kind_of(found_.tally[cell(node.level, t)], 1, 1).words += sum[t] * epochs_;
}

void ResidualWalk::run_fan_out(int at) {
    Node& node = nodes_[at];
    const std::size_t loops = node.fan.size();
    unsigned ended = 0;  // loops in a last run that is shorter
    for (std::size_t j = 0; j < loops; ++j) ended |= unsigned(node.fan[j].last < node.fan[j].bound && is_last(node.fan[j].dim)) << j;
    if (at == 0) {
        for (int t = 0; t < layer_.tensors; ++t) {  // points
            const DataSpace& space = layer_.spaces[t];
            low_.assign(space.ranks.size(), 0);
            for (std::size_t r = 0; r < low_.size(); ++r)
                for (int d = 0; d < layer_.dims; ++d) low_[r] += Position(space.move[r * layer_.dims + d]) * at_[d];
            high_ = low_;
            for (Position& high : high_) ++high;
            boxes_[t].clear(int(low_.size()));
            boxes_[t].add(low_.data(), high_.data());
            words_[t] = 1;
        }
    } else {
        for (const Loop& loop : node.fan) pending_[loop.dim] += 1 < loop.last;
        call(at - 1, true);
        for (const Loop& loop : node.fan) pending_[loop.dim] -= 1 < loop.last;
    }
    Receivers& receivers = receivers_of(node, ended);
    for (int t = 0; t < layer_.tensors; ++t) deliver(at, t, receivers);
}

// Adds what boxes_ brings to all receivers: from the level, or from a neighbour where that saves words.
void ResidualWalk::deliver(int at, int t, Receivers& receivers) {
    const Node& node = nodes_[at];
    const std::size_t own = cell(node.level, t);
    Memory& held = memory(at, t);
    Grid& grid = receivers.grids[t];
    const double words = words_[t];
    if (words > 0) {
        const Tally* kinds = &grid.kinds;
        if (layer_.linked[own] && held.receivers && same_shape(held.sent, boxes_[t], move_)) {
            bool near = true;  // a move beyond the last receiver's words is beyond all words
            for (std::size_t r = 0; r < grid.last.size(); ++r)
                near &= std::abs(move_[r]) <= std::max(grid.last[r], held.receivers->grids[t].last[r]);
            const int linked = near ? find_linked(placed(node, t, receivers), placed(node, t, *held.receivers), move_.data(),
                                                  int(grid.last.size())) : 0;
            if (linked > 0 && groups_left(grid) < grid.groups) {
                list_kinds(grid, with_hops_, rest_);
                kinds = &rest_;
                found_.links[own] += linked * words * epochs_;
            }
        }
        for (const Kind& kind : *kinds) {
            Kind& sum = kind_of(found_.tally[own], kind.multicast, kind.scatter);
            const double sent = words * epochs_ * kind.scatter;
            sum.words += sent;
            sum.hop_words += kind.hop_words * sent / kind.scatter;
        }
    }
    held.receivers = &receivers;
    held.sent = boxes_[t];
}

// The tile of a node at the present place, into low_ and high_.
void ResidualWalk::find_tile(const Node& node, int t) {
    const DataSpace& space = layer_.spaces[t];
    const std::size_t ranks = space.ranks.size();
    low_.resize(ranks), high_.resize(ranks);
    for (std::size_t r = 0; r < ranks; ++r) {
        low_[r] = 0;
        for (const Rank::Term& term : space.ranks[r].terms) low_[r] += Position(term.coefficient) * at_[term.dim];
        high_[r] = low_[r] + extent_along(space.ranks[r], [&](int d) { return is_last(d) ? node.rest[d] : node.whole[d]; });
    }
}

// Compares the tile in low_ and high_ with the one that the node held, and holds it from now on. Distances are those of
// the centres, as in Timeloop, so that a smaller last tile has a step of its own.
void ResidualWalk::remember(int at, int t, bool boxes) {
    const Node& node = nodes_[at];
    const int ranks = int(low_.size());
    Memory& held = memory(at, t);
    const bool holds = node.level + 1 >= layer_.levels || layer_.held[cell(node.level + 1, t)];
    if (holds && held.filled && low_ == held.low && high_ == held.high) {  // nothing moves, as in most calls
        words_[t] = 0;
        return boxes_[t].clear(ranks);
    }
    bool subtracts = false;
    if (holds && held.filled) {
        std::vector<Position>& step = step_;
        step.resize(ranks), held.step.resize(ranks);
        for (int r = 0; r < ranks; ++r) {
            const Position twice = low_[r] + high_[r] - held.low[r] - held.high[r];
            step[r] = twice >= 0 ? (twice + 1) / 2 : -((1 - twice) / 2);
        }
        const auto [moves, slides] = compare_moves(ranks, step.data(), held.step.data(), held.moving, true);
        subtracts = slides || !moves;
        if (moves) {
            held.moving = slides;
            held.step = step;
        }
    }
    Boxes& sent = boxes_[t];
    const double words = volume(low_.data(), high_.data(), ranks);
    words_[t] = words;
    if (subtracts && boxes) {
        subtract(low_.data(), high_.data(), held.low.data(), held.high.data(), ranks, corners_, sent);
        words_[t] = 0;
        for (int box = 0; box < sent.count; ++box) words_[t] += volume(&sent.low[box * ranks], &sent.high[box * ranks], ranks);
    } else if (subtracts) {
        words_[t] = words - overlap<double>(ranks, [&](int r) {
            return double(std::min(high_[r], held.high[r]) - std::max(low_[r], held.low[r]));
        });
    } else if (boxes) {
        sent.clear(ranks);
        sent.add(low_.data(), high_.data());
    }
    if (holds) {
        held.filled = true;
        held.low.swap(low_), held.high.swap(high_);
    }
}

// Made once for each set of loops that are in a shorter last run. Their places matter where hops are counted, or once words may
// go over links.
ResidualWalk::Receivers& ResidualWalk::receivers_of(Node& node, unsigned ended) {
    for (auto& known : node.receivers)
        if (known->ended == ended && !known->grids.empty()) return *known;
    if (ended) {
        node.receivers.push_back(std::make_unique<Receivers>(Receivers{ended, node.receivers[0]->fan_out, {}}));
        FanOut& fan_out = node.receivers.back()->fan_out;
        for (std::size_t j = 0; j < node.fan.size(); ++j) {
            if (!(ended >> j & 1)) continue;
            const auto [d, bound, last] = node.fan[j];
            fan_out.spatial[d] = last, fan_out.fan = fan_out.fan / bound * last;
            if (last == 1) fan_out.fanned &= ~(Dims(1) << d);
        }
    }
    Receivers& made = ended ? *node.receivers.back() : *node.receivers[0];
    made.grids.resize(layer_.tensors);
    for (int t = 0; t < layer_.tensors; ++t) {
        const DataSpace& space = layer_.spaces[t];
        Grid& grid = made.grids[t];
        last_offset(space, made.fan_out, grid.last);
        if (with_hops_) list_kinds(placed(node, t, made), true, grid.kinds);
        else count_groups(layer_, space, made.fan_out, layer_.multicast[cell(node.level, t)], grid.last.data(), connected_,
                          grid.kinds);
    }
    return made;
}

// The receivers of one data space with their places and groups.
Grid& ResidualWalk::placed(const Node& node, int t, Receivers& receivers) {
    Grid& grid = receivers.grids[t];
    if (grid.offset.empty()) {
        std::vector<double> farthest;
        last_offset(layer_.spaces[t], node.receivers[0]->fan_out, farthest);
        place_receivers(layer_, layer_.spaces[t], receivers.fan_out, receivers.fan_out.fanned, farthest.data(), grid);
        find_groups(grid, layer_.multicast[cell(node.level, t)]);
    }
    return grid;
}

}  // namespace fadiff
