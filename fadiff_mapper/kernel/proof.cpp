#include "proof.hpp"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <numeric>

namespace fadiff {

constexpr double INF = std::numeric_limits<double>::infinity();

// Orders of loops of one choice of factors that are evaluated; the choice of more stays open.
constexpr double MOST_ORDERS = 40'000;

Prover::Prover(const Layer& layer, std::vector<double> bounds, OpenLoops open, Metric metric, const Price& price,
               const RoomColumns& room)
    : layer_(layer), bounds_(std::move(bounds)), open_(std::move(open)), metric_(metric), price_(price), levels_(layer.levels),
      dims_(layer.dims), tensors_(layer.tensors), plain_(tensors_), own_(tensors_), shared_(tensors_), windows_(tensors_),
      place_(std::size_t(levels_) * dims_), scatter_(std::size_t(levels_) * tensors_), most_(std::size_t(levels_) * dims_), used_(levels_), per_block_(levels_), leaking_(levels_),
      fixed_reads_(levels_), fixed_writes_(levels_), cheaper_(dims_), orders_(levels_), covered_(levels_),
      chosen_(levels_, LevelLoops{std::vector<double>(dims_, 1.0), std::vector<std::uint8_t>(dims_)}), work_(layer), reads_(levels_), writes_(levels_), iterations_(dims_),
      children_(levels_, {std::vector<std::vector<double>>(dims_), std::vector<double>(dims_)}) {
    if (room.words) {
        free_.assign(room.words, room.words + levels_);
        counted_.assign(room.counted, room.counted + std::size_t(levels_) * tensors_);
        room_.emplace(layer_);
        for (int lane = 0; lane < LANES; ++lane) lay_room(room, 0, lane, *room_);
    }
    reach_.resize(std::size_t(levels_) * dims_);
    every_ = (Dims(1) << dims_) - 1;
    for (double bound : bounds_) macs_ *= bound;
    for (int t = 0; t < tensors_; ++t) {
        plain_[t] = true;
        Dims seen = 0;
        for (const fadiff::Rank& rank : layer.spaces[t].ranks) {
            Dims looping = 0;
            for (const auto& term : rank.terms)
                if (bounds_[term.dim] > 1) {
                    plain_[t] &= term.coefficient == 1 && !(looping >> term.dim & 1);
                    looping |= Dims(1) << term.dim;
                }
            plain_[t] &= !(looping & seen) && !(looping & (looping - 1));
            (looping & (looping - 1) ? shared_ : own_)[t] |= looping;
            windows_[t] |= looping & seen;
            seen |= looping;
        }
        own_[t] &= ~shared_[t];
        moves_.emplace_back(dims_);
        for (std::size_t r = 0; r < layer.spaces[t].ranks.size(); ++r)
            for (int d = 0; d < dims_; ++d)
                if (const double move = layer.spaces[t].move[r * dims_ + d]) moves_[t][d].push_back({r, move});
        seen = 0;
        terms_.emplace_back();
        for (const fadiff::Rank& rank : layer.spaces[t].ranks) {
            auto& terms = terms_[t].emplace_back();
            for (const auto& term : rank.terms)
                if (!(seen >> term.dim & 1)) terms.push_back(term), seen |= Dims(1) << term.dim;
            std::sort(terms.begin(), terms.end(), [](auto& a, auto& b) { return std::abs(a.coefficient) < std::abs(b.coefficient); });
        }
    }
    for (int level = 0; level < levels_; ++level) {
        std::uint8_t at = 0, *place = &place_[std::size_t(level) * dims_];
        for (int d : open_.inner[level]) place[d] = at++;
        for (int d : open_.between[level]) place[d] = at;
        for (int d : open_.outer[level]) place[d] = ++at;
        Frame frame;
        frame.tile.resize(dims_), frame.visits.resize(tensors_), frame.reads.resize(levels_), frame.writes.resize(levels_);
        frames_.push_back(frame);
    }
}

// The smallest prime factor of a whole number above 1.
static double smallest_factor(double whole) {
    double factor = 2;
    while (factor * factor <= whole && !divides(factor, whole)) ++factor;
    return factor * factor <= whole ? factor : whole;
}

// Distinct words that a set of iterations touches at least, by its points in every dimension; of a contiguous box where
// `box` says so.
double Prover::distinct(int t, const double* points, bool box) const {
    double words = 1;
    for (const auto& terms : terms_[t]) {
        double count = 1;
        bool whole = box;
        for (const auto& term : terms) {
            const double n = points[term.dim], step = std::abs(term.coefficient);
            if (whole && step <= count) count += step * (n - 1);
            else if (whole && n > 1) count *= n, whole = false;
            else count += n - 1;
        }
        words *= count;
    }
    return words;
}

// Takes up the spatial factors of a scheme; `before`: those of the scheme before it, [L][D], or none. Whether temporal loops
// can reach the bounds.
bool Prover::take_spatial(const std::vector<double>& before) {
    const auto spatial = [&](int level, int d) { return scheme_.spatial[std::size_t(level) * dims_ + d]; };
    apart_loose_ = layer_.priced;
    cycles_ = macs_;
    bool reaches = true;
    for (int d = 0; d < dims_; ++d) {
        bool known = !before.empty();  // neighbouring schemes share most of their factors
        for (int level = 0; level < levels_; ++level) {
            cycles_ /= spatial(level, d);
            known = known && before[std::size_t(level) * dims_ + d] == spatial(level, d);
        }
        for (int level = 0; level < levels_ && !known; ++level) {
            const std::size_t at = std::size_t(level) * dims_ + d;
            std::vector<double>& reach = reach_[at];
            reach.clear();
            for (std::size_t i = 0; i < (level ? reach_[at - dims_].size() : 1); ++i)
                for (double factor : open_.factors[at]) {
                    const double points = (level ? reach_[at - dims_][i] : 1) * factor * spatial(level, d);
                    if (divides(points, bounds_[d])) reach.push_back(points);
                }
            std::sort(reach.begin(), reach.end());
            reach.erase(std::unique(reach.begin(), reach.end()), reach.end());
        }
        const std::vector<double>& whole = reach_[std::size_t(levels_ - 1) * dims_ + d];
        if (!std::binary_search(whole.begin(), whole.end(), bounds_[d])) reaches = false;
    }
    if (!reaches) return false;
    std::vector<double> inside(dims_, 1.0);  // points of the spatial loops so far
    for (first_open_ = 0; first_open_ < levels_; ++first_open_) {
        bool open = false;
        for (int d = 0; d < dims_; ++d) {
            inside[d] *= spatial(first_open_, d);
            const std::vector<double>& reach = reach_[std::size_t(first_open_) * dims_ + d];
            open |= reach.size() > 1 || reach[0] > inside[d];
        }
        if (open) break;
    }
    double instances = 1;
    for (int level = levels_ - 1; level >= 0; --level) {
        for (int d = 0; d < dims_; ++d)
            most_[std::size_t(level) * dims_ + d] = level == levels_ - 1 ? bounds_[d] : most_[std::size_t(level + 1) * dims_ + d] / spatial(level + 1, d);
        used_[level] = instances;
        per_block_[level] = std::min(instances, layer_.level[level].clusters);
        for (int t = 0; t < tensors_; ++t) {
            double& scatter = scatter_[std::size_t(level) * tensors_ + t] = 1;
            Dims seen = 0;
            for (const fadiff::Rank& rank : layer_.spaces[t].ranks) {
                double apart = 1;
                int loops = 0;
                for (const auto& term : rank.terms)
                    if (spatial(level, term.dim) > 1) {
                        apart_loose_ |= seen >> term.dim & 1 || ++loops > 1;  // receivers may want the same words of a window
                        if (!(seen >> term.dim & 1)) apart += spatial(level, term.dim) - 1;
                        seen |= Dims(1) << term.dim;
                    }
                scatter *= apart;
            }
        }
        for (int d = 0; d < dims_; ++d) instances *= spatial(level, d);
    }
    for (int level = 0; level < levels_; ++level)
        leaking_[level] = layer_.level[level].leak * layer_.leaking(level, used_);
    return true;
}

double Prover::begin(const Scheme& scheme) {
    const std::vector<double> before = std::exchange(scheme_, scheme).spatial;
    if (before != scheme_.spatial) reaches_bounds_ = take_spatial(before);
    if (!reaches_bounds_) return INF;
    crossings_.clear();
    for (auto& cache : orders_) cache.clear();
    for (auto& cache : covered_) cache.clear();
    loose_ = apart_loose_;
    const auto spatial = [&](int level, int d) { return scheme_.spatial[std::size_t(level) * dims_ + d]; };

    fixed_energy_ = macs_ * layer_.compute_energy, fixed_accessed_ = 0;
    std::fill(fixed_reads_.begin(), fixed_reads_.end(), 0.0), std::fill(fixed_writes_.begin(), fixed_writes_.end(), 0.0);
    for (int t = 0; t < tensors_; ++t) {
        std::vector<double> part(levels_);
        part[levels_ - 1] = volume(layer_.spaces[t], bounds_.data());
        for (int level = levels_ - 2; level >= 0; --level) part[level] = part[level + 1] / scatter_[std::size_t(level + 1) * tensors_ + t];
        int inner = -1;
        double scatter = 1;
        for (int level = 0; level < levels_; ++level) {
            scatter *= scatter_[std::size_t(level) * tensors_ + t];
            if (!scheme_.keep[std::size_t(level) * tensors_ + t]) continue;
            Crossing crossing{t, inner, level, scatter};
            crossing.written = layer_.spaces[t].written;
            if (crossing.written) crossing.first_inner = inner < 0 ? 0 : part[inner], crossing.first_outer = part[level];
            const std::size_t next = std::size_t(inner + 1) * tensors_ + t;
            for (int d = 0; d < dims_; ++d)
                crossing.neighbours |= layer_.linked[next] && shared_[t] >> d & 1 && spatial(inner + 1, d) > 1;
            if (crossing.neighbours && placed()) {
                const auto alike = [](const Layout& a, const Layout& b) { return a.order == b.order && a.on_y == b.on_y; };
                auto& [placed, apart] = apart_[{next, scheme_.spatial}];
                const std::vector<Layout>& now = scheme_.layouts;
                if (!std::equal(placed.begin(), placed.end(), now.begin(), now.end(), alike))
                    placed = now, apart = receivers_apart(inner + 1, t);
                crossing.apart = apart;
            }
            if (inner >= 0 && inner < first_open_) find_steps(crossing);
            crossing.within.assign(levels_ - std::max(inner, 0), {1.0, 1.0});
            for (int l = inner + 1; inner >= 0 && l < levels_; ++l) {
                auto& [own, receivers] = crossing.within[l - inner] = crossing.within[l - inner - 1];
                own *= scatter_[std::size_t(l) * tensors_ + t];
                for (const int d : members(layer_.spaces[t].relevant)) receivers *= spatial(l, d);
            }
            if (inner < 0) {  // the arithmetic asks for a word per cycle
                // units side by side may hand on all but the first word, whatever moves it
                const bool linked = layer_.linked[t] && used_[0] < macs_ / cycles_;
                const double asked = linked ? distinct(t, bounds_.data(), true) / used_[level] / scatter : cycles_;
                loose_ |= linked;
                charge(crossing, {asked, asked, linked}, fixed_energy_, fixed_reads_.data(), fixed_writes_.data(), fixed_accessed_);
            } else {
                crossings_.push_back(crossing);
            }
            inner = level, scatter = 1;
        }
        if (inner < 0) return INF;
    }
    std::sort(crossings_.begin(), crossings_.end(), [](auto& a, auto& b) { return a.inner < b.inner; });
    for (int d = 0; d < dims_; ++d) {
        cheaper_[d] = 0;
        for (int other = 0; other < dims_; ++other) {
            bool cheaper = other != d, alike = true;
            for (const Crossing& crossing : crossings_) {
                if (crossing.inner >= first_open_) continue;
                const DataSpace& space = layer_.spaces[crossing.tensor];
                const bool own = space.relevant >> d & 1, others = space.relevant >> other & 1;
                cheaper &= !others || (own && !(shared_[crossing.tensor] >> d & 1));
                alike &= own == others && !(shared_[crossing.tensor] >> other & 1);
            }
            if (cheaper && !(alike && other > d)) cheaper_[d] |= Dims(1) << other;
        }
    }
    return start({}) ? bound(frames_[levels_ - 1], levels_ - 1) : INF;
}

// Adds the accesses of both levels of a crossing.
void Prover::charge(const Crossing& crossing, const Words& words, double& energy, double* reads, double* writes,
                    double& accessed) const {
    const int inner = crossing.inner, outer = crossing.outer;
    const auto pay = [&](int level, double elements, double price, bool address, bool sums, double* asked_for) {
        const double block = layer_.level[level].block, amount = layer_.in_words(level, crossing.tensor, elements, sums);
        energy += per_block_[level] * (std::ceil(amount / block - 1e-9) * price + (address ? amount * layer_.level[level].address : 0));
        asked_for[level] += amount * layer_.bandwidth_scale[std::size_t(level) * tensors_ + crossing.tensor];
        if (level == levels_ - 1) accessed += elements * used_[level];
    };
    // Neighbours hand on words that are not sent, which Timeloop divides by the receivers of all instances outside.
    const double filling = std::min(words.received, words.sent) + std::max(words.received - words.sent, 0.0) / used_[inner + 1];
    // Timeloop rounds averages over windows; other words are whole numbers.
    const double sent = std::ceil(words.sent * crossing.scatter - 0.5 - 1e-6);
    const double received = words.loose ? std::max(std::ceil(filling - 1 - 1e-6), 0.0) : std::floor(filling + 1e-6);
    const double asked = crossing.written ? std::max(sent - crossing.first_outer, 0.0) : sent;
    // where words come up more than once they are partial sums (MORE in evaluate.cpp)
    const bool sums = crossing.written && asked > crossing.first_outer * 1e-9;
    pay(outer, asked, layer_.level[outer].read, !crossing.written, sums, reads);
    if (crossing.written) pay(outer, sent, layer_.level[outer].update, true, sums, writes);
    if (inner < 0) return;
    const double filled = crossing.written ? std::max(received - crossing.first_inner, 0.0) : received;
    pay(inner, filled, layer_.level[inner].fill, true, crossing.written, writes);
}

// How many tiles neighbours are away from a receiver in the dimensions of windows, and the largest share of receivers, of
// any layout, that have one there, the largest first. Neighbours that are away in another rank are left out: its loops move
// tiles further than that.
Prover::Apart Prover::receivers_apart(int level, int t) const {
    const Dims relevant = layer_.spaces[t].relevant, others = relevant & ~shared_[t];
    DataSpace places;  // a rank for every dimension, by one-point tiles
    places.ranks.resize(dims_), places.move.resize(std::size_t(dims_) * dims_);
    for (const int d : members(relevant)) places.move[std::size_t(d) * dims_ + d] = 1;
    FanOut fan_out(layer_);
    std::copy_n(&scheme_.spatial[std::size_t(level) * dims_], dims_, fan_out.spatial.begin());
    std::fill(fan_out.below.begin(), fan_out.below.end(), 1.0);
    std::map<std::vector<double>, double> found;
    for (const Layout& layout : scheme_.layouts) {
        std::copy_n(&layout.order[std::size_t(level) * dims_], dims_, fan_out.order.begin());
        std::copy_n(&layout.on_y[std::size_t(level) * dims_], dims_, fan_out.on_y.begin());
        measure(layer_, level, fan_out);
        Grid grid;
        place_receivers(layer_, places, fan_out, fan_out.fanned, nullptr, grid);
        std::map<std::vector<double>, double> own;
        std::vector<std::set<std::vector<double>>> there(grid.count);
        each_neighbour(grid, grid.count, [&](int begin, int end, int on) {
            for (int e = begin; e < end; ++e) {
                std::vector<double> tiles(dims_);
                std::transform(grid.at(e + on), grid.at(e + on) + dims_, grid.at(e), tiles.begin(), std::minus<>());
                bool alike = true;
                for (const int d : members(others)) alike &= tiles[d] == 0;
                if (alike) there[e].insert(tiles);
            }
        });
        for (const auto& all : there)
            for (const auto& tiles : all) own[tiles] += 1.0 / grid.count;
        for (const auto& [tiles, share] : own) found[tiles] = std::max(found[tiles], share);
    }
    // receivers that want some of the same words form groups of several sizes, of which all may be left out
    for (const fadiff::Rank& rank : layer_.spaces[t].ranks)
        if (std::count_if(rank.terms.begin(), rank.terms.end(), [&](auto& term) { return fan_out.spatial[term.dim] > 1; }) > 1)
            for (auto& [tiles, share] : found) share = 1;
    Apart apart(found.begin(), found.end());
    std::sort(apart.begin(), apart.end(), [](auto& a, auto& b) { return a.second > b.second; });
    return apart;
}

// Tiles of all calls of some loops, over all orders at least: fewest where loops that send less stand inside others.
template <typename Calls>
static double fewest(std::vector<Calls>& loops, double Calls::* share) {
    std::sort(loops.begin(), loops.end(), [&](auto& a, auto& b) { return a.*share > b.*share; });
    double sum = 0, outside = 1;
    for (const Calls& calls : loops) sum += calls.*share * (calls.bound - 1) * outside, outside *= calls.bound;
    return sum;
}

// Words over a crossing of which all loops outside the receiver are decided; at least as many for every order of loops
// that leaves the same ones inside the innermost loop that moves the tile.
Prover::Words Prover::decided_words(const Crossing& crossing, const Frame& frame) const {
    const int t = crossing.tensor;
    const auto& space = layer_.spaces[t];
    const double words = volume(space, frame.tile.data()), visits = frame.visits[t];
    if (plain_[t]) return {words * visits, words * visits, false};
    std::size_t at = frame.loops;
    while (at > 0 && !(space.relevant >> loops_[at - 1].dim & 1)) --at;
    if (!at) return {words, words, false};
    const int first = loops_[at - 1].dim;  // of the innermost loop that moves the tile
    if (own_[t] >> first & 1) return {words * visits, words * visits, false};
    if (windows_[t] >> first & 1) return least_words(crossing, frame, crossing.inner);
    moving_.assign(loops_.rend() - at, loops_.rend());
    return window_words(crossing, frame.tile.data());
}

// Words of a window, moved by the loops `moving_`, the innermost first. A call of a loop moves the tile by a step of this
// loop, less one of each loop inside: all loops of levels further in, and those of its level that constraints put there,
// or may put there.
Prover::Words Prover::window_words(const Crossing& crossing, const double* tile) const {
    const DataSpace& space = layer_.spaces[crossing.tensor];
    const std::size_t ranks = space.ranks.size();
    const Loop& first = moving_.front();
    const double words = volume(space, tile);
    still_.assign(ranks, 0.0), step_.resize(ranks), ranges_.resize(ranks);  // moves, in words of every rank: none, a step
    extents_.resize(ranks);
    for (std::size_t r = 0; r < ranks; ++r)
        step_[r] = space.move[r * dims_ + first.dim] * first.step, extents_[r] = extent(space.ranks[r], tile);
    const double fresh = 1 - overlap<double>(int(ranks), [&](int r) { return extents_[r] - std::abs(step_[r]); }) / words;
    const bool anywhere = crossing.neighbours && !placed();     // whether neighbours may be any number of tiles away
    double kept = anywhere;  // share of receivers that find the words of such a step at a neighbour
    near_.assign(crossing.apart.size() * ranks, 0.0);
    double* away = near_.data();
    for (const auto& [tiles, share] : crossing.apart) {
        for (const int d : members(shared_[crossing.tensor]))
            for (const auto& [r, move] : moves_[crossing.tensor][d]) away[r] += move * tiles[d] * tile[d];
        if (std::equal(step_.begin(), step_.end(), away)) kept = std::max(kept, share);
        away += ranks;
    }
    bool exact = !first.several && !kept;
    double all = first.bound;
    calls_.clear();
    // Adds the steps of a loop to ranges of moves; one that is not sure may stand outside.
    const auto add = [&](std::vector<Range>& ranges, const Loop& loop, double sign, bool sure) {
        const double from = sure, to = loop.several ? loop.bound - 1 : 1;
        for (const auto& [r, move] : moves_[crossing.tensor][loop.dim]) {
            const double one = sign * move * loop.step;
            ranges[r].least += std::min(one * from, one * to), ranges[r].most += std::max(one * from, one * to);
            if (from != to) ranges[r].unit = one, ++ranges[r].unknown;
        }
    };
    inside_.assign(ranks, Range{});
    add(inside_, first, -1, true);
    for (std::size_t i = 1, beside = 1; i < moving_.size(); ++i) {
        const Loop& loop = moving_[i];
        Calls& calls = calls_.emplace_back(loop.bound, 1.0, anywhere ? 0.0 : 1.0);
        all *= loop.bound;
        if (own_[crossing.tensor] >> loop.dim & 1) continue;  // moves the tile further, in this rank, than all loops inside
        const std::uint8_t* place = loop.level < 0 ? nullptr : &place_[std::size_t(loop.level) * dims_];
        // How far a call may move the tile in a rank. A split loop moves it by any number of its steps.
        for (; moving_[beside].level < loop.level; ++beside) add(inside_, moving_[beside], -1, true);
        ranges_ = inside_;
        add(ranges_, loop, 1, true);
        for (std::size_t j = beside; j < moving_.size() && moving_[j].level == loop.level; ++j) {
            const int d = moving_[j].dim;
            if (j != i && (!place || place[d] <= place[loop.dim]))
                add(ranges_, moving_[j], -1, place && place[d] < place[loop.dim]);
        }
        const auto possible = [&](const double* move) {
            for (std::size_t r = 0; r < ranks; ++r) {
                const auto& [least, most, unit, unknown] = ranges_[r];
                if (move[r] < least || move[r] > most || (unknown == 1 && !is_whole((move[r] - least) / unit))) return false;
            }
            return true;
        };
        if (possible(still_.data())) calls.received = calls.sent = 0;
        else if (possible(step_.data())) calls.received = fresh, calls.sent = std::min(calls.sent, fresh * (1 - kept));
        const double* away = near_.data();
        for (auto next = crossing.apart.begin(); next != crossing.apart.end() && 1 - next->second < calls.sent; ++next) {
            if (possible(away) && !std::equal(step_.begin(), step_.end(), away)) calls.sent = 1 - next->second;
            away += ranks;
        }
        exact &= calls.received == 1 && calls.sent == 1;
    }
    // A split innermost loop has at least the smallest prime factor of the iterations.
    const double slides = fresh * all * (1 - 1 / (first.several ? smallest_factor(first.bound) : first.bound));
    const double received = words * (1 + fewest(calls_, &Calls::received) + slides);
    const double sent = words * (1 + fewest(calls_, &Calls::sent) + slides * (1 - kept));
    return {received, sent, !exact};
}

// Words to a register below all open loops, if the innermost one goes over the dimension `first` and moves the tile: all other
// loops, open or decided, stand outside and repeat its calls. `least`: its words whatever the innermost loop is.
Prover::Words Prover::moved_words(const Crossing& crossing, const Frame& frame, int level, int first,
                                  const Words& least) const {
    const int t = crossing.tensor;
    if (plain_[t] || own_[t] >> first & 1) {
        double words = volume(layer_.spaces[t], crossing.tile.data()) * frame.outside;
        for (double iterations : iterations_) words *= iterations;
        return {words, words, false};
    }
    if (crossing.step.empty() || windows_[t] >> first & 1) return least;
    moving_.clear();
    for (int d = 0; d < dims_; ++d) {
        if (iterations_[d] == 1) continue;
        const bool several = level > first_open_ && smallest_factor(iterations_[d]) < iterations_[d];
        moving_.emplace_back(d, level > first_open_ ? -1 : level, iterations_[d], crossing.step[d], several);
        if (d == first) std::swap(moving_.front(), moving_.back());
    }
    moving_.insert(moving_.end(), loops_.rend() - frame.loops, loops_.rend());
    const Words moved = window_words(crossing, crossing.tile.data());
    return {std::max(moved.received, least.received), std::max(moved.sent, least.sent), moved.loose};
}

// The tile of a register below all open loops, and the points of a step of the innermost loop over each dimension; no steps where
// outer levels have spatial loops over a window, as steps of its temporal loops have several lengths.
void Prover::find_steps(Crossing& crossing) const {
    crossing.tile.resize(dims_), crossing.step.resize(dims_);
    for (int d = 0; d < dims_; ++d) crossing.tile[d] = reach_[std::size_t(crossing.inner) * dims_ + d][0];
    for (int d = 0; d < dims_; ++d) {
        double& step = crossing.step[d] = crossing.tile[d];
        for (int level = crossing.inner + 1; level < levels_; ++level) {
            const double spatial = scheme_.spatial[std::size_t(level) * dims_ + d];
            if (level > first_open_ && shared_[crossing.tensor] >> d & 1 && spatial > 1) return crossing.step.clear();
            step *= level <= first_open_ ? spatial : 1;
        }
    }
}

// Words over a crossing whose receiver lies within the given level, or is that level: at least those that the tile of the
// level touches, again for every visit.
Prover::Words Prover::least_words(const Crossing& crossing, const Frame& frame, int level) const {
    const int t = crossing.tensor;
    const auto [own, receivers] = crossing.within[level - crossing.inner];
    const double* tile = frame.tile.data();
    const double visits = frame.visits[t];
    if (plain_[t]) {
        const double words = volume(layer_.spaces[t], tile) / receivers, room = layer_.level[crossing.inner].usable;
        // where the receiver cannot hold its share, a loop inside moves it, and all loops outside repeat that
        const double times = room >= 0 && layer_.in_words(crossing.inner, t, words, true) > room ? std::max(frame.outside, visits) : visits;
        return {words * times, words * times, false};
    }
    double grown[64], repeated = visits;
    std::copy_n(tile, dims_, grown);
    for (const int d : members(shared_[t])) {
        grown[d] = most_[std::size_t(level) * dims_ + d];
        repeated /= grown[d] / tile[d];
    }
    const double touched = std::max(frame.decided == every_ ? distinct(t, tile, true) : 0.0, distinct(t, grown, false));
    // Neighbours may hand on all that an earlier call delivered to any of them.
    const double sent = !crossing.neighbours ? touched * repeated : level > crossing.inner ? touched : 0;
    return {touched * repeated / receivers, sent / own, true};
}

// The bound of all mappings whose loops outside a level are those of a frame: the least of all loops that can be innermost.
// With `enough`: some number on the same side of it, below, or at least as large.
double Prover::bound(const Frame& frame, int level, double enough) const {
    const bool some = frame.decided != every_;
    double energy = frame.energy, accessed = frame.accessed;
    open_reads_ = frame.reads, open_writes_ = frame.writes;
    std::size_t within = 0;  // crossings to registers below all open loops
    for (; within < crossings_.size() && crossings_[within].inner < std::min(level, first_open_); ++within) {}
    for (std::size_t c = within; c < crossings_.size() && crossings_[c].inner < level; ++c)
        charge(crossings_[c], least_words(crossings_[c], frame, level), energy, open_reads_.data(), open_writes_.data(), accessed);
    least_.clear();
    for (std::size_t c = 0; c < within; ++c) least_.push_back(least_words(crossings_[c], frame, level));
    const auto whole = [&](int first) {
        double all_energy = energy, all_accessed = accessed;
        std::copy(open_reads_.begin(), open_reads_.end(), reads_.begin());
        std::copy(open_writes_.begin(), open_writes_.end(), writes_.begin());
        for (std::size_t c = 0; c < within; ++c) {
            const Crossing& crossing = crossings_[c];
            const bool moved = first >= 0 && layer_.spaces[crossing.tensor].relevant >> first & 1;
            Words words = least_[c];
            if (moved && some) {
                const Words& other = frames_[level + 1].moved[c * dims_ + first];
                words = {std::max(words.received, other.received), std::max(words.sent, other.sent), true};
            } else if (moved) {
                words = moved_words(crossing, frame, level, first, words);
            }
            charge(crossing, words, all_energy, reads_.data(), writes_.data(), all_accessed);
        }
        double busy = cycles_;
        for (int l = 0; l < levels_; ++l) {
            layer_.level[l].at_limited_ports(reads_[l], writes_[l], [&](double asked, double given) {
                busy = std::max(busy, std::ceil(asked / given * (1 - 1e-12)));
            });
        }
        for (int l = 0; l < levels_; ++l) all_energy += busy * leaking_[l];
        return value(all_energy, busy + layer_.network_latency, all_accessed);
    };
    const double any = whole(-1);  // whatever the innermost loop is
    if (within == 0 || level < first_open_ || (enough > -INF && any >= enough)) return any;
    Dims first = 0;
    if (!some || level == first_open_) first = innermost(frame, level);
    if (some && !first) first = frames_[level + 1].first;
    double least = INF;
    for (const int d : members(first))
        if (!(first & cheaper_[d]) && least >= enough) least = std::min(least, whole(d));
    return first ? least : any;
}

// Dimensions whose loop can be the innermost one within a level: as constraints say in one open level, any in several. None:
// no dimension that is decided loops there. Sets `iterations_`: of all loops within over each dimension, at most.
Dims Prover::innermost(const Frame& frame, int level) const {
    Dims open = 0, first = 0;
    for (int d = 0; d < dims_; ++d) {
        iterations_[d] = frame.tile[d];
        for (int l = 0; l <= level; ++l) iterations_[d] /= scheme_.spatial[std::size_t(l) * dims_ + d];
        open |= Dims(iterations_[d] > 1) << d;
    }
    if (level > first_open_) return open;
    const std::uint8_t* place = &place_[std::size_t(level) * dims_];
    int least = -1;
    for (const int d : members(open & frame.decided))
        if (least < 0 || place[d] < least) least = place[d];
    for (const int d : members(open)) first |= Dims(place[d] <= least) << d;
    return first;
}

// Data spaces that are sent from a level to levels further in.
std::vector<int> Prover::moved(int level) const {
    std::vector<int> found;
    for (int t = 0; t < tensors_; ++t)
        if (std::any_of(crossings_.begin(), crossings_.end(), [&](auto& one) { return one.tensor == t && one.inner < level; })) found.push_back(t);
    return found;
}

// Those of some dimensions that have loops of several iterations.
static std::vector<std::uint8_t> looping_of(const std::vector<std::uint8_t>& names, Dims looping) {
    std::vector<std::uint8_t> loops;
    std::copy_if(names.begin(), names.end(), std::back_inserter(loops), [&](std::uint8_t d) { return looping >> d & 1; });
    return loops;
}

// The loops of several iterations at a level, innermost first, with those in between that constraints leave open as given.
Prover::Order Prover::ordered(int level, Dims looping, const std::vector<std::uint8_t>& between) const {
    std::vector<std::uint8_t> loops = looping_of(open_.inner[level], looping);
    const std::vector<std::uint8_t> outer = looping_of(open_.outer[level], looping);
    loops.insert(loops.end(), between.begin(), between.end());
    loops.insert(loops.end(), outer.begin(), outer.end());
    Order order{loops, std::vector<Dims>(tensors_), std::vector<int>(tensors_, -1)};
    for (const int t : moved(level))
        for (const std::uint8_t d : loops) {
            if (layer_.spaces[t].relevant >> d & 1) {
                if (shared_[t] >> d & 1) order.mover[t] = d;
                break;
            }
            order.idle[t] |= Dims(1) << d;
        }
    return order;
}

// Whether every data space crosses as often at least in another order of the same loops: there no loop leaves a data space in
// place that does not here, and windows are moved by the same loops.
bool Prover::Order::covers(const Order& other) const {
    for (std::size_t t = 0; t < idle.size(); ++t)
        if (other.idle[t] & ~idle[t]) return false;
    return mover == other.mover;
}

// Orders of the loops of a level, one for each way to leave data spaces in place that no other way exceeds.
const std::vector<Prover::Order>& Prover::orders(int level, Dims looping) {
    auto [cached, fresh] = orders_[level].try_emplace(looping);
    std::vector<Order>& result = cached->second;
    if (!fresh) return result;
    const std::vector<std::uint8_t> between = looping_of(open_.between[level], looping);
    std::vector<int> sent = moved(level), windowed;
    for (const int t : sent)
        if (shared_[t] & looping) windowed.push_back(t);
    const auto add = [&](const std::vector<std::uint8_t>& middle) {
        const Order added = ordered(level, looping, middle);
        if (std::any_of(result.begin(), result.end(), [&](auto& other) { return other.covers(added); })) return;
        result.erase(std::remove_if(result.begin(), result.end(), [&](auto& other) { return added.covers(other); }), result.end());
        result.push_back(added);
    };
    std::vector<std::uint8_t> sorted = between;
    if (windowed.size() > 1) {
        std::sort(sorted.begin(), sorted.end());
        do add(sorted);
        while (std::next_permutation(sorted.begin(), sorted.end()));
    } else {
        do {  // the data space that stays longest first
            const auto less = [&](std::uint8_t a, std::uint8_t b) {
                for (int t : sent) {
                    const bool of_a = layer_.spaces[t].relevant >> a & 1, of_b = layer_.spaces[t].relevant >> b & 1;
                    if (of_a != of_b) return of_b;
                }
                return a < b;
            };
            std::sort(sorted.begin(), sorted.end(), less);
            add(sorted);
            if (windowed.empty()) continue;
            const Dims relevant = layer_.spaces[windowed[0]].relevant;
            const auto mover = std::find_if(sorted.begin(), sorted.end(), [&](std::uint8_t d) { return relevant >> d & 1; });
            for (auto first = mover; first != sorted.end(); ++first) {
                if (!(relevant >> *first & 1)) continue;
                std::vector<std::uint8_t> order = sorted;
                std::rotate(order.begin() + (mover - sorted.begin()), order.begin() + (first - sorted.begin()), order.begin() + (first - sorted.begin()) + 1);
                add(order);
            }
        } while (std::next_permutation(sent.begin(), sent.end()));
    }
    for (Order& order : result)
        for (const auto* names : {&open_.inner[level], &open_.between[level], &open_.outer[level]})
            for (std::uint8_t d : *names)
                if (!(looping >> d & 1)) order.order.push_back(d);  // loops of one iteration stand anywhere
    return result;
}

// Whether a level has room for the tiles that it keeps, as the evaluation adds them up.
bool Prover::fits(int level, const double* tile) const {
    const double usable = layer_.level[level].usable;
    if (usable < 0) return true;
    double words = 0, counted = 0;
    for (int t = 0; t < tensors_; ++t) {
        const std::size_t cell = std::size_t(level) * tensors_ + t;
        if (!scheme_.keep[cell]) continue;
        const double own = layer_.in_words(level, t, volume(layer_.spaces[t], tile), true);
        words += own;
        if (room_ && counted_[cell]) counted += own;
    }
    return words <= usable && (!room_ || counted + std::max(usable - free_[level], 0.0) <= usable);
}

// The frame of the level within, once a level's loops over the dimensions `decided` are; false where its tile does not fit.
// Without an order: words are at least those of every order, and of all loops over the other dimensions, whose factor is 1.
bool Prover::enter(int level, const double* factor, const Order* order, Dims decided) {
    const Frame& outer = frames_[level];
    Frame& frame = frames_[level - 1];
    double iterations = 1;
    Dims looping = 0;
    for (int d = 0; d < dims_; ++d) {
        iterations *= factor[d];
        looping |= Dims(factor[d] > 1) << d;
        frame.tile[d] = outer.tile[d] / (factor[d] * scheme_.spatial[std::size_t(level) * dims_ + d]);
    }
    const int inner = level - 1;
    const bool all = decided == every_;
    if (all && !fits(inner, frame.tile.data())) return false;
    frame.decided = decided;
    frame.outside = all ? outer.outside * iterations : outer.outside;  // loops not decided may stand outside of those that are
    for (int t = 0; t < tensors_; ++t) {
        frame.visits[t] = outer.visits[t];
        if (!(looping & layer_.spaces[t].relevant)) continue;
        frame.visits[t] = outer.outside * iterations;
        for (const int d : members(order ? order->idle[t] : looping & ~layer_.spaces[t].relevant)) frame.visits[t] /= factor[d];
    }
    frame.loops = outer.loops;
    loops_.erase(loops_.begin() + frame.loops, loops_.end());
    for (int i = dims_; all && i-- > 0;) {
        const int d = order ? order->order[i] : i;
        if (factor[d] > 1) loops_.emplace_back(d, level, factor[d], frame.tile[d] * scheme_.spatial[std::size_t(level) * dims_ + d]);
    }
    frame.loops = loops_.size();
    frame.energy = outer.energy, frame.accessed = outer.accessed, frame.loose = outer.loose;
    std::copy(outer.reads.begin(), outer.reads.end(), frame.reads.begin());
    std::copy(outer.writes.begin(), outer.writes.end(), frame.writes.begin());
    for (const Crossing& crossing : crossings_) {
        if (crossing.inner != inner) continue;
        const Words words = order ? decided_words(crossing, frame) : least_words(crossing, frame, inner);
        frame.loose |= words.loose;
        charge(crossing, words, frame.energy, frame.reads.data(), frame.writes.data(), frame.accessed);
    }
    return true;
}

// Takes up the loops of the outermost levels; false where they do not fit.
bool Prover::start(const std::vector<LevelLoops>& outer) {
    const auto alike = [&](const LevelLoops& loops) { return int(loops.factor.size()) == dims_; };
    if (int(outer.size()) >= levels_ || !std::all_of(outer.begin(), outer.end(), alike))
        throw std::invalid_argument("loops of another layer");
    Frame& frame = frames_[levels_ - 1];
    frame.tile = bounds_;
    std::fill(frame.visits.begin(), frame.visits.end(), 1.0);
    frame.outside = 1, frame.energy = fixed_energy_, frame.accessed = fixed_accessed_, frame.loose = loose_, frame.loops = 0;
    frame.reads = fixed_reads_, frame.writes = fixed_writes_, frame.decided = every_;
    if (!fits(levels_ - 1, bounds_.data())) return false;
    for (std::size_t i = 0; i < outer.size(); ++i) {
        const int level = levels_ - 1 - int(i);
        Dims looping = 0;
        for (int d = 0; d < dims_; ++d) looping |= Dims(outer[i].factor[d] > 1) << d;
        const auto& all = orders(level, looping);
        const auto own = std::find_if(all.begin(), all.end(), [&](const Order& one) { return one.order == outer[i].order; });
        if (own == all.end()) throw std::invalid_argument("an order that is none of a part's");
        chosen_[level] = outer[i];
        if (!enter(level, outer[i].factor.data(), &*own, every_)) return false;
    }
    return true;
}

// Calls `visit(factor, order)` for the choices of a level's loops that fit, once they stand in the frame within. Loops are
// decided over one dimension after the other; choices that begin alike are left out where no mapping of them is below the limit.
template <typename Visit>
void Prover::each_child(int level, Visit visit) {
    auto& options = children_[level].options;   // no structured binding: lambdas of C++17 cannot take one in
    auto& factor = children_[level].factor;
    Frame& frame = frames_[level];
    for (int d = 0; d < dims_; ++d) {
        const double left = frame.tile[d] / scheme_.spatial[std::size_t(level) * dims_ + d];
        options[d].clear();
        for (double factor : open_.factors[std::size_t(level) * dims_ + d]) {
            if (!divides(factor, left)) continue;
            const double inside = left / factor;
            if (level == 0 ? inside == 1 : std::binary_search(reach_[std::size_t(level - 1) * dims_ + d].begin(),
                                                              reach_[std::size_t(level - 1) * dims_ + d].end(), inside))
                options[d].push_back(factor);
        }
        if (options[d].empty()) return;
    }
    frame.first = level >= first_open_ ? innermost(frame, level) : 0;
    frame.moved.resize(crossings_.size() * dims_);
    for (std::size_t c = 0; c < crossings_.size() && crossings_[c].inner < std::min(level, first_open_); ++c) {
        const Words least = least_words(crossings_[c], frame, level);
        for (const int d : members(frame.first & layer_.spaces[crossings_[c].tensor].relevant))
            frame.moved[c * dims_ + d] = moved_words(crossings_[c], frame, level, d, least);
    }
    std::fill(factor.begin(), factor.end(), 1.0);
    const std::function<bool(int)> decide = [&](int d) {  // the loop over a dimension and those before; false: enough is seen
        for (const double choice : options[d]) {
            factor[d] = choice;
            if (level && (d == 0 || choice > 1)) {
                if (++count_ + found_.mappings > budget_) return found_.whole = false;
                if (!enter(level, factor.data(), nullptr, every_ >> d << d)) continue;
                if (bound(frames_[level - 1], level - 1, limit_) >= limit_) continue;
            }
            if (d > 0) {
                if (!decide(d - 1)) return false;
                continue;
            }
            Dims looping = 0;
            for (int other = 0; other < dims_; ++other) looping |= Dims(factor[other] > 1) << other;
            for (const Order& order : orders(level, looping)) {
                if (level) enter(level, factor.data(), &order, every_);
                if (!visit(factor, order)) return false;
            }
        }
        factor[d] = 1;
        return true;
    };
    decide(dims_ - 1);
}

std::pair<std::size_t, std::vector<Part>> Prover::divided(const std::vector<LevelLoops>& outer, double limit) {
    std::vector<Part> parts;
    const int level = levels_ - 1 - int(outer.size());
    found_ = Searched{};
    limit_ = limit, budget_ = std::numeric_limits<std::size_t>::max(), count_ = 0;
    if (level < 1 || !start(outer)) return {0, parts};
    each_child(level, [&](const std::vector<double>& factor, const Order& order) {
        ++count_;
        if (bound(frames_[level - 1], level - 1, limit) >= limit) return true;
        const double least = bound(frames_[level - 1], level - 1);
        if (least < limit) parts.push_back({least, {factor, order.order}});
        return true;
    });
    return {count_, parts};
}

Searched Prover::search(const std::vector<LevelLoops>& outer, double limit, std::size_t budget) {
    found_ = Searched{};
    found_.value = found_.least = INF;
    limit_ = limit, budget_ = budget, count_ = 0;
    waiting_.clear();
    if (start(outer)) descend(levels_ - 1 - int(outer.size()));
    flush();
    found_.parts = count_;
    return found_;
}

void Prover::descend(int level) {
    each_child(level, [&](const std::vector<double>& factor, const Order& order) {
        if (++count_ + found_.mappings > budget_) found_.whole = false;
        if (!found_.whole) return false;
        if (level && bound(frames_[level - 1], level - 1, limit_) >= limit_) return true;
        chosen_[level].factor = factor, chosen_[level].order = order.order;
        if (level) descend(level - 1);
        else leaf();
        return found_.whole;
    });
}

// A mapping with the loops chosen.
void Prover::leaf() {
    Mapping mapping(layer_);
    for (int level = 0; level < levels_; ++level) {
        const std::size_t first = std::size_t(level) * dims_;
        std::copy_n(chosen_[level].factor.begin(), dims_, mapping.factor.begin() + 2 * first + dims_);
        std::copy_n(scheme_.spatial.begin() + first, dims_, mapping.factor.begin() + 2 * first);
        std::copy_n(chosen_[level].order.begin(), dims_, mapping.order.begin() + first);
    }
    mapping.keep = scheme_.keep;
    mapping.find_loops(dims_);
    const Layout& layout = scheme_.layouts[0];
    mapping.spatial_order = layout.order, mapping.on_y = layout.on_y;
    if (!frames_[0].loose) return evaluate_later(mapping);
    // Windows: every order that sends as much as the chosen one at least, and every layout.
    double orders = double(scheme_.layouts.size());
    for (int level = 0; level < levels_; ++level) {
        int free = 0;
        for (std::uint8_t d : open_.between[level]) free += mapping.looping[2 * level + 1] >> d & 1;
        orders *= std::tgamma(free + 1.0);
    }
    if (orders > MOST_ORDERS) {
        found_.least = std::min(found_.least, bound(frames_[0], 0));
        return;
    }
    for (const Layout& one : scheme_.layouts) {
        mapping.spatial_order = one.order, mapping.on_y = one.on_y;
        permute(0, mapping);
    }
}

// Every order of the loops of a level and those further out that the chosen one covers.
void Prover::permute(int level, Mapping& mapping) {
    if (level == levels_) return evaluate_later(mapping);
    const Dims looping = mapping.looping[2 * level + 1];
    auto [cached, fresh] = covered_[level].try_emplace({looping, chosen_[level].order});
    if (fresh) {
        const auto& all = orders(level, looping);
        const auto chosen = std::find_if(all.begin(), all.end(), [&](const Order& one) { return one.order == chosen_[level].order; });
        auto between = looping_of(open_.between[level], looping);
        std::sort(between.begin(), between.end());
        do {
            const Order one = ordered(level, looping, between);
            if (!chosen->covers(one)) continue;
            std::vector<std::uint8_t> loops = one.order;
            for (int d = 0; d < dims_; ++d)
                if (!(looping >> d & 1)) loops.push_back(std::uint8_t(d));
            cached->second.push_back(loops);
        } while (std::next_permutation(between.begin(), between.end()));
    }
    for (const auto& order : cached->second) {
        std::copy(order.begin(), order.end(), mapping.order.begin() + std::size_t(level) * dims_);
        permute(level + 1, mapping);
    }
}

void Prover::evaluate_later(const Mapping& mapping) {
    waiting_.push_back(mapping);
    if (waiting_.size() == LANES) flush();
}

void Prover::flush() {
    if (waiting_.empty()) return;
    const Mapping* given[LANES];
    for (std::size_t i = 0; i < waiting_.size(); ++i) given[i] = &waiting_[i];
    pack_mappings(layer_, given, int(waiting_.size()), work_.pack);
    Scores scores[LANES];
    evaluate(layer_, room_ ? &*room_ : nullptr, 0, work_, scores);
    for (std::size_t i = 0; i < waiting_.size(); ++i) {
        const double own = value(scores[i].energy, scores[i].cycles, scores[i].last_level_accesses);
        if (!scores[i].legal || own >= limit_) continue;
        found_.value = own, found_.best = waiting_[i];
        limit_ = own * (1 - PROOF_TOLERANCE);
    }
    found_.mappings += waiting_.size();
    waiting_.clear();
}

}  // namespace fadiff
