#include "residual_walk.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <tuple>

namespace fadiff {

constexpr int NOWHERE = std::numeric_limits<int>::max();

// Iterations of one loop, and coordinates of one rank, that the walk tells apart.
constexpr double MOST_ITERATIONS = 1 << 30, MOST_COORDINATES = 0x1p52;

static bool is_countable(const Layer& layer, const Mapping& mapping) {
    std::vector<double> points(layer.dims, 1.0);
    for (std::size_t at = 0; at < mapping.factor.size(); ++at) {
        if (!(mapping.factor[at] <= MOST_ITERATIONS)) return false;
        points[at % layer.dims] *= mapping.factor[at];
    }
    for (const DataSpace& space : layer.spaces)
        for (const Rank& rank : space.ranks)
            if (!(extent(rank, points.data()) <= MOST_COORDINATES)) return false;
    return std::all_of(points.begin(), points.end(), [](double own) { return own <= MOST_COORDINATES; });
}

ResidualWalk::ResidualWalk(const Layer& layer, const Mapping& mapping, bool with_hops)
    : layer_(layer), with_hops_(with_hops), at_(layer.dims), pending_(layer.dims), imperfect_(layer.dims, NOWHERE),
      words_(layer.tensors), boxes_(layer.tensors) {
    if (!is_countable(layer, mapping)) {
        calls_ = std::numeric_limits<double>::infinity();
        return;
    }
    std::vector<Position> whole(layer.dims, 1), rest(layer.dims, 1);
    const int dims = layer.dims;
    // Takes one loop into the tile.
    const auto take = [&](std::size_t place, int d) {
        const int bound = int(mapping.factor[place * dims + d]), own = int(mapping.last[place * dims + d]);
        rest[d] += whole[d] * (own - 1);
        whole[d] *= bound;
        if (own != bound) imperfect_[d] = std::min(imperfect_[d], int(nodes_.size()));
        return std::make_pair(bound, own);
    };
    for (int level = 0; level < layer.levels; ++level) {
        const std::size_t first = nodes_.size(), places = 2 * std::size_t(level), orders = std::size_t(level) * dims;
        Node fan;
        fan.level = level, fan.spatial = true;
        double width = 1, height = 1;
        for (int y = 0; y < 2; ++y)
            for (int i = 0; i < dims; ++i) {
                const int d = mapping.spatial_order[orders + i];
                if (bool(mapping.on_y[orders + d]) != bool(y) || !(mapping.factor[places * dims + d] > 1)) continue;
                const Position points = whole[d];
                const auto [bound, own] = take(places, d);
                fan.fan.push_back({d, bound, points, bool(y)});
                fan.fan_last.push_back(own);
                (y ? height : width) *= bound;
            }
        fan_ = std::max(fan_, width * height);
        // grids beyond MOST_RECEIVERS are not walked
        fan.width = std::max(int(std::min(width, MOST_RECEIVERS)), layer.fanout_x[level]);
        fan.height = std::max(int(std::min(height, MOST_RECEIVERS)), layer.fanout_y[level]);
        fan.whole = whole, fan.rest = rest;
        if (!fan.fan.empty()) nodes_.push_back(std::move(fan));
        const std::size_t temporal = nodes_.size();
        for (int i = 0; i < dims; ++i) {
            const int d = mapping.order[orders + i];
            if (!(mapping.factor[(places + 1) * dims + d] > 1)) continue;
            Node loop;
            loop.level = level, loop.dim = d, loop.points = whole[d];
            std::tie(loop.bound, loop.last) = take(places + 1, d);
            loop.whole = whole, loop.rest = rest;
            nodes_.push_back(std::move(loop));
        }
        if (nodes_.size() == temporal) {  // a level has at least one loop
            Node loop;
            loop.level = level, loop.dim = dims - 1, loop.points = whole[dims - 1];
            loop.whole = whole, loop.rest = rest;
            nodes_.push_back(std::move(loop));
        }
        nodes_[first].sender = true;
    }
    for (Node& node : nodes_) {
        node.sum.resize(layer.tensors), node.before.resize(layer.tensors);
        node.sharings.resize(layer.tensors);
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
        if (!node.spatial) run(node.dim, node.bound, node.last, false);
        for (std::size_t j = 0; j < node.fan.size(); ++j) run(node.fan[j].dim, node.fan[j].bound, node.fan_last[j], true);
        double own = node.spatial ? 8 : 1;
        for (int d = 0; d < layer_.dims; ++d) own *= lasts[d] + others[d];
        if (i > 0) most += own;
    }
    return most;
}

ResidualTraffic ResidualWalk::run() {
    call(int(nodes_.size()) - 1, false);
    return found_;
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
    const int d = node.dim;
    const bool ends = is_last(d);
    const int count = ends ? node.last : node.bound;
    if (at == 0) {
        for (int t = 0; t < layer_.tensors; ++t) kind_of(found_.tally[cell(0, t)], 1, 1).words += count * epochs_;
        return;
    }
    const bool run_last = ends && imperfect_[d] < at, run_before = run_last && node.bound != node.last;
    std::vector<double>& sum = node.sum;
    std::fill(sum.begin(), sum.end(), 0.0);
    const Position origin = at_[d];
    // One iteration that stands for `times`; whether its own words count, or once more those of the iteration before.
    const auto iterate = [&](int index, int times, bool own) {
        at_[d] = origin + node.points * index;
        pending_[d] += index + 1 < node.last;
        const double epochs = epochs_;
        epochs_ *= times;
        call(at - 1, false);
        epochs_ = epochs;
        pending_[d] -= index + 1 < node.last;
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
    const Node& node = nodes_[at];
    const std::size_t loops = node.fan.size();
    unsigned ended = 0;  // loops in a last run that is shorter
    for (std::size_t j = 0; j < loops; ++j) ended |= unsigned(node.fan_last[j] < node.fan[j].bound && is_last(node.fan[j].dim)) << j;
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
        for (std::size_t j = 0; j < loops; ++j) pending_[node.fan[j].dim] += 1 < node.fan_last[j];
        call(at - 1, true);
        for (std::size_t j = 0; j < loops; ++j) pending_[node.fan[j].dim] -= 1 < node.fan_last[j];
    }
    for (int t = 0; t < layer_.tensors; ++t) deliver(at, t, ended);
}

// Adds what boxes_ brings to all receivers: from the level, or from a neighbour where that saves words.
void ResidualWalk::deliver(int at, int t, unsigned ended) {
    const Node& node = nodes_[at];
    const std::size_t own = cell(node.level, t);
    Memory& held = memory(at, t);
    Sharing& shared = sharing(at, t, ended);
    const double words = words_[t];
    if (words > 0) {
        Tally rest;
        const Tally* kinds = &shared.kinds;
        double linked = 0;
        if (layer_.linked[own] && held.sharing && same_shape(held.sent, boxes_[t], move_)) {
            bool near = true;
            for (int r = 0; r < shared.ranks; ++r)
                near &= std::abs(move_[r]) <= std::max(shared.last[r], held.sharing->last[r]);
            if (near) {
                place(*held.sharing);
                place(shared);
                linked = find_neighbours(*held.sharing, shared, move_, linked_);
            }
        }
        if (linked > 0) {
            rest = kinds_of(shared, linked_, layer_.multicast[own], with_hops_);
            double with = 0, without = 0;
            for (const Kind& kind : rest) with += kind.scatter;
            for (const Kind& kind : shared.kinds) without += kind.scatter;
            if (with < without) {
                kinds = &rest;
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
    held.sharing = &shared;
    held.sent = boxes_[t];
}

// The tile of a node at the present place, into low_ and high_.
void ResidualWalk::find_tile(const Node& node, int t) {
    const DataSpace& space = layer_.spaces[t];
    const std::size_t ranks = space.ranks.size();
    low_.resize(ranks), high_.resize(ranks);
    for (std::size_t r = 0; r < ranks; ++r) {
        Position low = 0, reach = 0;
        for (const Rank::Term& term : space.ranks[r].terms) {
            const Position points = is_last(term.dim) ? node.rest[term.dim] : node.whole[term.dim];
            low += Position(term.coefficient) * at_[term.dim];
            reach += Position(term.coefficient) * (points - 1);
        }
        low_[r] = low, high_[r] = low + reach + 1;
    }
}

// Compares the tile in low_ and high_ with the one that the node held, and holds it from now on. Distances are those of
// the centres, as in Timeloop, so that a smaller last tile has a step of its own.
void ResidualWalk::remember(int at, int t, bool boxes) {
    const Node& node = nodes_[at];
    const int ranks = int(low_.size());
    Memory& held = memory(at, t);
    const bool holds = node.level + 1 >= layer_.levels || layer_.held[cell(node.level + 1, t)];
    bool subtracts = false;
    if (holds && held.filled) {
        std::vector<Position>& step = step_;
        step.resize(ranks);
        bool still = true;
        for (int r = 0; r < ranks; ++r) {
            const Position twice = low_[r] + high_[r] - held.low[r] - held.high[r];
            step[r] = twice >= 0 ? (twice + 1) / 2 : -((1 - twice) / 2);
            still &= step[r] == 0;
        }
        subtracts = still || !held.moving || step == held.step;
        if (!still) {
            held.moving = subtracts;
            held.step = step;
        }
    }
    Boxes& sent = boxes_[t];
    if (subtracts) {
        if (boxes) {
            subtract(low_.data(), high_.data(), held.low.data(), held.high.data(), ranks, corners_, sent);
            words_[t] = sent.words();
        } else {
            double words = 1, overlap = 1;
            for (int r = 0; r < ranks; ++r) {
                words *= double(high_[r] - low_[r]);
                overlap *= double(std::max<Position>(std::min(high_[r], held.high[r]) - std::max(low_[r], held.low[r]), 0));
            }
            words_[t] = words - overlap;
        }
    } else {
        double words = 1;
        for (int r = 0; r < ranks; ++r) words *= double(high_[r] - low_[r]);
        words_[t] = words;
        if (boxes) {
            sent.clear(ranks);
            sent.add(low_.data(), high_.data());
        }
    }
    if (holds) {
        held.filled = true;
        held.low.swap(low_), held.high.swap(high_);
    }
}

// Made once for each set of loops that are in a shorter last run.
Sharing& ResidualWalk::sharing(int at, int t, unsigned ended) {
    Node& node = nodes_[at];
    for (auto& [of, known] : node.sharings[t])
        if (of == ended) return *known;
    const DataSpace& space = layer_.spaces[t];
    std::vector<SpatialLoop> loops = node.fan;
    for (std::size_t j = 0; j < loops.size(); ++j)
        if (ended >> j & 1) loops[j].bound = node.fan_last[j];
    node.sharings[t].emplace_back(ended, std::make_unique<Sharing>(sharing_of(layer_, space, loops, node.width, node.height)));
    Sharing& made = *node.sharings[t].back().second;
    const bool multicast = layer_.multicast[cell(node.level, t)];
    if (with_hops_) {
        place(made);
        made.kinds = kinds_of(made, {}, multicast, true);
    } else {
        made.kinds = kinds_without_hops(layer_, space, loops, multicast);
    }
    return made;
}

}  // namespace fadiff
